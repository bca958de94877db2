"""Tells where a key takes effect: at the top level, below `X.` or below `S->T.`. Called by `config/recognise.py`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from sparkmirror.config.keys.client_keys import SECURITY_NAMES
from sparkmirror.config.keys.key import Scope, Unused, is_family, name_parts
from sparkmirror.config.keys.table import KEYS
from sparkmirror.config.keys.unused import UNUSED
from sparkmirror.model import FlowName

NAMED: tuple[tuple[Scope, str], ...] = (
    *((key.scope, key.name) for key in KEYS),
    *((Scope.CLIENT, name) for name in SECURITY_NAMES),
    (Scope.FLOW, "replication.policy.<option>"),
)
"""Every key that takes effect, the options of a naming policy of one's own included."""

_CLIENT_PREFIXES = ("", "consumer.", "producer.", "admin.")
_FLOW_CLIENT_PREFIXES = ("consumer.", "source.consumer.", "producer.override.", "source.cluster.")


class Level:
    """One kind of place. `prefixes` is what stands before a key of a scope there; absent where it has no effect."""

    def __init__(self, prefixes: Mapping[Scope, tuple[str, ...]]) -> None:
        self.prefixes = prefixes
        spelled = [f"{prefix}{name}" for scope, name in NAMED for prefix in prefixes.get(scope, ())]
        self.names = frozenset(name for name in spelled if not is_family(name))
        idle = {f"{prefix}{entry.name}" for entry in UNUSED for prefix in prefixes.get(entry.scope, ())}
        self._all_names = self.names | idle
        self._families = tuple(name for name in spelled if is_family(name))

    def knows(self, rest: str) -> bool:
        """Whether the key `rest` takes effect on this level."""
        return rest in self.names or any(name_parts(family, rest) is not None for family in self._families)

    def unused(self, rest: str) -> Unused | None:
        """The key that `rest` is to MirrorMaker on this level, where it has no effect here."""
        for entry in UNUSED:
            for prefix in self.prefixes.get(entry.scope, ()):
                if name_parts(f"{prefix}{entry.name}", rest) is not None:
                    return entry
        return None

    def key_at_end(self, text: str) -> str:
        """The longest end of `text` that is a key here, "" without any: tells the alias in `us.east.topics`."""
        return max((name for name in self._all_names if text.endswith(f".{name}")), key=len, default="")


TOP = Level({Scope.FILE: ("",), Scope.FLOW: ("",), Scope.STORAGE: ("",), Scope.CLIENT: ("",)})
CLUSTER = Level(
    {
        Scope.CLIENT: _CLIENT_PREFIXES,
        Scope.WORKER: ("",),
        Scope.STORAGE: ("",),
        Scope.CONSUMER: ("consumer.",),
        Scope.PRODUCER: ("producer.",),
        Scope.ADMIN: ("admin.",),
    }
)
FLOW = Level(
    {
        Scope.FLOW: ("",),
        Scope.FLOW_ONLY: ("",),
        Scope.CLIENT: _FLOW_CLIENT_PREFIXES,
        Scope.CONSUMER: ("consumer.", "source.consumer."),
        Scope.PRODUCER: ("producer.override.",),
    }
)


_OF_FILE = Level({Scope.FILE: ("",)})
_OF_TARGET = Level({Scope.WORKER: ("",), Scope.STORAGE: ("",)})


def is_of_file(key: str) -> bool:
    """Whether a key is one of the whole file. Config providers are left out, because a Connect cluster has them too."""
    return _OF_FILE.knows(key) and not key.startswith("config.providers")


def home_of(key: str, flow: FlowName) -> str:
    """The place in a properties file of a key from a connector of the flow, or from the worker of its target."""
    if is_of_file(key):
        return key
    return f"{flow.target}.{key}" if _OF_TARGET.knows(key) else f"{flow}.{key}"


@dataclass(frozen=True, slots=True)
class Place:
    """The part of a key that names a cluster or flow (`A.`, `A->B.`, "" at the top level), and its level."""

    prefix: str
    level: Level


TOP_LEVEL = Place("", TOP)


def places_of(aliases: Sequence[str]) -> Iterator[Place]:
    """Flows first and longer aliases first, since an alias may hold dots."""
    flows = [f"{FlowName(source, target)}." for source, target in permutations(aliases, 2)]
    yield from (Place(prefix, FLOW) for prefix in sorted(flows, key=len, reverse=True))
    yield from (Place(f"{alias}.", CLUSTER) for alias in sorted(aliases, key=len, reverse=True))


def place_of(key: str, places: Sequence[Place]) -> Place:
    """The place that `key` is written in; the top level where it names neither cluster nor flow of the file."""
    if TOP.knows(key):
        return TOP_LEVEL
    return next((place for place in places if key.startswith(place.prefix)), TOP_LEVEL)
