"""Recognises slips of the pen, and keys that documentation or older releases spell otherwise.

Called by `config/recognise.py` and `config/formats/tidy.py`.
"""

from collections.abc import Iterable
from difflib import get_close_matches


def _removed(name: str) -> str:
    return f"MirrorMaker has not known it since 4.0; write `{name}`"


_GONE = "MirrorMaker has not known it since 4.0, and nothing takes its place"

MISPRINTS: tuple[str, ...] = (
    *("emit.heartbeats", "emit.checkpoints", "emit.offset-syncs", "refresh.topics", "refresh.groups"),
    *("sync.topic.configs", "sync.topic.acls", "sync.group.offsets"),
)
"""Switches that Kafka's documentation and README write without `.enabled`, which never worked in MirrorMaker."""

RENAMED: dict[str, str] = {
    **{name: f"write `{name}.enabled`" for name in MISPRINTS},
    "brokers.list": "write `bootstrap.servers`",
    "topics.blacklist": _removed("topics.exclude"),
    "topics.whitelist": "MirrorMaker 2 has never known it; write `topics`",
    "groups.blacklist": _removed("groups.exclude"),
    "config.properties.blacklist": _removed("config.properties.exclude"),
    "use.incremental.alter.configs": _GONE,
    "add.source.alias.to.metrics": _GONE,
}
"""Keys that a person finds in documentation or in old files, and what to know of each."""


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """`did you mean …?`, or "" when nothing is near; a difference in case alone is nearest."""
    known = list(known)
    alike = [name for name in known if name.casefold() == text.casefold()]
    near = alike or get_close_matches(text, known, n=1, cutoff=0.75 if len(text) > 3 else 0.5)
    return f"did you mean `{near[0]}`?" if near else ""
