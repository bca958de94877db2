"""Writes the reference of all keys, by task, from their table. Called by `python -m sparkmirror.config.keys.table`."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from sparkmirror.config.keys.client_keys import SECURITY_NAMES
from sparkmirror.config.keys.key import Key, Scope
from sparkmirror.config.keys.table import KEYS
from sparkmirror.config.keys.unused import UNUSED
from sparkmirror.config.spelling import MISPRINTS, RENAMED

_INTRODUCTION = """\
# Configuration keys

<!-- Written by `python -m sparkmirror.config.keys.table > docs/keys.md`; edit config/keys instead. -->

All keys that take effect, by task; behind them those that MirrorMaker 2, Kafka Connect or Kafka's clients know and that
have no effect here. S and T stand for the aliases of a flow's source and target, X for the alias of any cluster.
[configuration.md](configuration.md) has the rules of the file and of precedence.
`sparkmirror config explain FILE KEY` prints a key's entry, its values in a file, and the lines they come from.
"""
_SECTIONS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("Clusters and log-ins", ("clusters", "config.providers", "plugin.path", "bootstrap.servers", "security.")),
    (
        "Which topics, and how they are made",
        ("enabled", "topics", "topic.", "replication.", "refresh.topics", "forwarding.", "partitioning", "preserve."),
    ),
    ("Records on the way", ("transforms", "predicates", "timestamps.")),
    (
        "Tasks, memory and rates",
        ("tasks.", "epoch.", "balance.", "lease.", "unpacked.", "connections.per", "rate.limit", "session.timeout"),
    ),
    ("What is lost, refused or repeated", ("on.", "exactly.once", "transaction.")),
    ("Positions", ("offset.storage", "offsets.storage", "offset.flush", "group.id", "progress.")),
    ("Settings and ACLs of topics", ("sync.topic.", "use.defaults", "config.propert")),
    (
        "Consumer groups and offsets",
        ("group", "refresh.groups", "sync.group.", "checkpoints.", "emit.checkpoints", "emit.offset-syncs", "offset"),
    ),
    ("Heartbeats and probes", ("emit.heartbeats", "heartbeats.", "canary.")),
    ("Status page, logs and MBeans", ("status.", "log.", "metric.")),
)
"""Titles, and how the names of their keys begin. A key stands in the first section that fits; those of Kafka's clients
have sections of their own."""
_CLIENTS: Final = {Scope.CONSUMER: "Reading client", Scope.PRODUCER: "Writing client", Scope.ADMIN: "Admin client"}
_VALUE: Final = re.compile(r"[0-9]+|none|`[a-z.]+`")
"""What the column on MirrorMaker 2 holds where only the default differs."""


def render_reference() -> str:
    """docs/keys.md, whole."""
    return "\n".join([_INTRODUCTION, *_defaults(), *_tables(), *_security(), *_without_effect()]) + "\n"


def section_of(key: Key[Any]) -> str:
    """The title under which a key stands. Raises LookupError for one that fits none."""
    if key.scope in _CLIENTS:
        return _CLIENTS[key.scope]
    for title, beginnings in _SECTIONS:
        if key.name.startswith(beginnings):
            return title
    raise LookupError(f"{key.name} fits no section of the reference")


def _defaults() -> Iterator[str]:
    yield "## Defaults that differ from MirrorMaker's\n"
    yield "| Key | Here | MirrorMaker 2 | Meaning |\n|---|---|---|---|"
    for key in KEYS:
        if _VALUE.fullmatch(key.mirrormaker):
            other = key.mirrormaker if key.mirrormaker.startswith("`") else f"`{key.mirrormaker}`"
            yield _cells(f"`{key.scope.spellings(key.name)[0]}`", _default(key.default), other, key.doc)
    yield "\nMirrorMaker's other keys have its defaults. What a key does otherwise is in the last column below.\n"


def _tables() -> Iterator[str]:
    for title in (*(title for title, _ in _SECTIONS), *_CLIENTS.values()):
        yield f"## {title}\n"
        yield "| Key | Written as | Type | Default | Meaning | MirrorMaker 2 |\n|---|---|---|---|---|---|"
        yield from (_row(key) for key in KEYS if section_of(key) == title)
        yield ""


def _row(key: Key[Any]) -> str:
    places = "<br>".join(f"`{spelling}`" for spelling in key.scope.spellings(key.name))
    return _cells(f"`{key.name}`", places, key.type.label, _default(key.default), key.doc, key.mirrormaker or "same")


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _default(value: object) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    text = ", ".join(value) if isinstance(value, tuple) else str(value)
    return f"`{text}`" if text else ""


def _security() -> Iterator[str]:
    yield "## TLS and SASL\n"
    yield "Kafka's client keys, written as the addresses are; [security.md](security.md) says what they do:\n"
    yield f"{_listed(SECURITY_NAMES)}.\n"


def _without_effect() -> Iterator[str]:
    yield "## Keys without effect\n"
    yield "Known to MirrorMaker 2, Kafka Connect or Kafka's clients. Each gives one warning with its reason.\n"
    yield "| Keys | Why |\n|---|---|"
    reasons = dict.fromkeys(entry.reason for entry in UNUSED)
    for reason in reasons:
        names = dict.fromkeys(entry.name for entry in UNUSED if entry.reason == reason)
        yield f"| {_listed(sorted(names))} | {reason} |"
    yield "\n## Other spellings\n"
    yield "Keys of older releases. They give a warning and have no effect, as in MirrorMaker:\n"
    yield from (f"- `{name}`: {meaning}" for name, meaning in RENAMED.items() if name not in MISPRINTS)
    yield f"\nMisprints of Kafka's documentation, read as if `.enabled` stood behind them: {_listed(MISPRINTS)}."


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
