"""The effective configuration: which value counts for each flow, and which line says so. Called by `cli/config.py`.

The values are those of the layers that `config/flow/flows.py` reads. Secrets and values of config providers are shown
as `[hidden]` and as the reference (invariant 10). `notes_on` names what an older MirrorMaker read differently.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.config.formats.properties import Entry, Properties
from sparkmirror.config.keys import client_keys, flow_keys
from sparkmirror.config.keys import table as keys
from sparkmirror.config.keys.client_keys import SECURITY_NAMES
from sparkmirror.config.keys.key import Key, Scope, Unused, is_family
from sparkmirror.config.keys.places import place_of, places_of
from sparkmirror.config.keys.table import TOPICS_EXCLUDE
from sparkmirror.config.keys.unused import UNUSED
from sparkmirror.config.precedence import admin_properties, cluster_properties, flow_layers
from sparkmirror.config.secrets import shown
from sparkmirror.config.types import STRING
from sparkmirror.model import FlowName
from sparkmirror.policy.filters import NameFilter

_REFERENCE = re.compile(r"(?:\s*\$\{[^}]*\})+\s*")
_SECURITY: tuple[Key[Any], ...] = tuple(
    Key(name, Scope.CLIENT, STRING, "", "Kafka's client key.") for name in SECURITY_NAMES
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One key for one reader. `entry` is the line that counts, None for the default; `beaten` are lines that do not.

    `used` is what the mirror goes by where that is something else than the value, else "".
    """

    part: str
    key: Key[Any]
    name: str
    entry: Entry | None
    beaten: tuple[Entry, ...] = ()
    used: str = ""

    @property
    def value(self) -> str:
        """The value as it may be shown."""
        if self.entry is None:
            return default_text(self.key)
        if _REFERENCE.fullmatch(self.entry.written):
            return self.entry.written.strip()
        return shown(self.name, self.entry.written or self.entry.value.strip())

    def as_json(self) -> dict[str, Any]:
        """The setting with its value as it may be shown, and the lines by their numbers."""
        return {
            "part": self.part,
            "key": self.name,
            "value": self.value,
            "used": self.used or self.value,
            "default": self.entry is None,
            "written": self.entry.key if self.entry else None,
            "line": self.entry.line if self.entry else None,
            **({"file": self.entry.file} if self.entry and self.entry.file else {}),
            "beaten": [{"written": entry.key, "line": entry.line} for entry in self.beaten],
        }


def explain_all(
    properties: Properties, flows: Iterable["FlowConfig"], aliases: Iterable[str]
) -> dict[str, list[Setting]]:
    """The settings of all flows, of all clusters' admin clients and of the whole file, by their names."""
    settings = {
        str(flow.name): [_with_used(setting, flow) for setting in explain_flow(properties, flow.name)] for flow in flows
    }
    settings |= {alias: list(explain_cluster(properties, alias)) for alias in aliases}
    return settings | {"the whole file": list(explain_file(properties))}


def explain_flow(properties: Properties, flow: FlowName) -> Iterator[Setting]:
    """The settings of a flow in the table's order: the flow's own, then those of its two clients."""
    layers = flow_layers(properties, flow)
    mirror, reader, writer = "flow", f"reading client of {flow.source}", f"writing client of {flow.target}"
    for scope, layer in (
        (Scope.FLOW, layers.connector),
        (Scope.FLOW_ONLY, layers.connector),
        (Scope.STORAGE, layers.worker),
        (Scope.WORKER, layers.worker),
    ):
        yield from _settings(properties, flow, mirror, scope, layer)
    for part, layer, scope in ((reader, layers.consumer, Scope.CONSUMER), (writer, layers.producer, Scope.PRODUCER)):
        yield from _settings(properties, flow, part, Scope.CLIENT, layer)
        yield from _settings(properties, flow, part, scope, layer)


def _with_used(setting: Setting, flow: "FlowConfig") -> Setting:
    used = _USED.get(setting.name)
    if used is None or (setting.entry is not None and setting.entry.written):
        return setting
    text = used(flow)
    return setting if text.casefold() == setting.value.casefold() else replace(setting, used=text)


_USED: Mapping[str, Callable[["FlowConfig"], str]] = {
    client_keys.BUFFER_MEMORY.name: lambda flow: str(flow.lease_ring_bytes),
    flow_keys.LEASE_RING_BYTES.name: lambda flow: str(flow.lease_ring_bytes),
    client_keys.FETCH_MAX_BYTES.name: lambda flow: str(flow.fetch_bytes_max),
    keys.EXACTLY_ONCE.name: lambda flow: "enabled" if flow.is_exactly_once else "disabled",
    keys.OFFSET_STORAGE_TOPIC.name: lambda flow: flow.offset_storage_topic,
    keys.OFFSETS_STORAGE_TOPIC.name: lambda flow: flow.offset_storage_topic,
    keys.GROUP_ID.name: lambda flow: flow.connector.group,
    keys.PROGRESS_CONNECTOR.name: lambda flow: flow.connector.name,
}
"""The effective values of keys whose value is bounded, or derived where it is empty."""


def explain_cluster(properties: Properties, alias: str) -> Iterator[Setting]:
    """The settings of a cluster's admin client."""
    layer = admin_properties(cluster_properties(properties, alias))
    for scope in (Scope.CLIENT, Scope.ADMIN):
        yield from _settings(properties, FlowName(alias, alias), f"admin client of {alias}", scope, layer)


def explain_file(properties: Properties) -> Iterator[Setting]:
    """The settings that are neither a flow's nor a cluster's."""
    return _settings(properties, FlowName("", ""), "file", Scope.FILE, properties.entries)


def _settings(
    properties: Properties, flow: FlowName, part: str, scope: Scope, layer: Mapping[str, Entry]
) -> Iterator[Setting]:
    owner = flow.target if part.startswith("writing") else flow.source

    def spelled(name: str) -> Iterator[str]:
        return _spelled(scope, name, flow, owner)

    for key in keys.keys_of(scope):
        if not is_family(key.name):
            entry = layer.get(key.name)
            yield Setting(part, key, key.name, entry, _beaten(properties, spelled(key.name), entry))
            continue
        for name, entry in layer.items():
            if key.parts(name) is not None:
                yield Setting(part, key, name, entry, _beaten(properties, spelled(name), entry))
    if scope is Scope.CLIENT:
        for key in _SECURITY:
            if entry := layer.get(key.name):
                yield Setting(part, key, key.name, entry, _beaten(properties, spelled(key.name), entry))


def _beaten(properties: Properties, spelled: Iterable[str], counts: Entry | None) -> tuple[Entry, ...]:
    """The lines that would set the key if the one that counts were not there. Without that one there are none."""
    if counts is None:
        return ()
    same_place = [entry for entry in properties.replaced if entry.key == counts.key]
    others = [entry for key in set(spelled) if (entry := properties.get(key)) is not None and entry.key != counts.key]
    return tuple(sorted([*same_place, *others], key=lambda entry: entry.line))


def _spelled(scope: Scope, name: str, flow: FlowName, owner: str) -> Iterator[str]:
    aliases = {"S": flow.source, "T": flow.target, "X": owner}
    for spelling in scope.spellings(""):
        if spelling.startswith("S->T."):
            yield f"{flow}.{spelling.removeprefix('S->T.')}{name}"
        elif spelling[:2] in ("S.", "T.", "X."):
            yield f"{aliases[spelling[0]]}.{spelling[2:]}{name}"
        else:
            yield f"{spelling}{name}"
    if scope is Scope.CONSUMER:
        yield f"{flow}.source.consumer.{name}"


def keys_named(text: str, aliases: Iterable[str]) -> tuple[list[Key[Any]], list[Unused]]:
    """The keys that `text` may mean: a bare name (`topics`), or a name as a file has it (`A->B.topics`,
    `A.consumer.group.id`)."""
    place = place_of(text, tuple(places_of(tuple(aliases))))
    names = {text, text.removeprefix(place.prefix)}
    names |= {name.split(role, 1)[1] for name in names for role in _ROLES if role in f".{name}"[1:]}
    used = [key for key in (*keys.KEYS, *_SECURITY) if any(key.parts(name) is not None for name in names)]
    return used, [key for key in UNUSED if key.name in names]


_ROLES = ("consumer.", "producer.override.", "producer.", "admin.")


def default_text(key: Key[Any]) -> str:
    """The default as a file would write it."""
    if isinstance(key.default, bool):
        return str(key.default).lower()
    return ", ".join(key.default) if isinstance(key.default, tuple) else str(key.default)


TOPICS_EXCLUDE_BEFORE_4: Final = (r".*[\-\.]internal", r".*\.replica", "__.*")
"""Up to MirrorMaker 3.9 (`DefaultTopicFilter.TOPICS_EXCLUDE_DEFAULT`)."""
_LITERAL = re.compile(r"[\w\-]+(\\?\.[\w\-]+)*")


def notes_on(flows: Iterable[FlowConfig]) -> Iterator[str]:
    """A sentence for each flow that depends on a default which MirrorMaker has changed."""
    for flow in flows:
        if flow.topics.exclude == TOPICS_EXCLUDE.default and any(map(_may_name_internal, flow.topics.include)):
            yield (
                f"{flow.name} leaves `topics.exclude` out, so a topic such as orders.internal or orders-internal is "
                "mirrored where `topics` includes it, as by MirrorMaker from 4.0 on; up to 3.9 it was left out, as "
                f"`topics.exclude = {', '.join(TOPICS_EXCLUDE_BEFORE_4)}` says"
            )


def _may_name_internal(expression: str) -> bool:
    """Whether the list may match a topic that only the older default left out: any pattern may, of plain names those
    alone."""
    return _LITERAL.fullmatch(expression) is None or not NameFilter(exclude=TOPICS_EXCLUDE_BEFORE_4[:1]).accepts(
        expression.replace("\\", "")
    )
