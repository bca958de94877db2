"""Puts MirrorMaker 2's connectors on Kafka Connect together, as the properties of flows. Called by
`config/formats/files.py` with the documents that `config/connector_parts.py` has read.

Connectors with the same two aliases are one flow. The source connector decides what is mirrored, the checkpoint
connector about groups, the heartbeat connector about heartbeats; a warning names each line that its connector does not
read. The worker, or keys of ours in a connector, say where positions are kept.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sparkmirror.config.connector_parts import CLASS, CONNECTORS, STRIMZI_WORKER, Part, Role
from sparkmirror.config.formats.properties import Entry, Properties
from sparkmirror.config.formats.strimzi_login import provider_entries
from sparkmirror.config.keys.client_keys import CLIENT_COMMON
from sparkmirror.config.keys.key import Scope
from sparkmirror.config.keys.places import CLUSTER, FLOW, home_of
from sparkmirror.config.keys.table import keys_of
from sparkmirror.config.secrets import is_secret
from sparkmirror.errors import ConfigError
from sparkmirror.model import FlowName

KAFKA_WORKER = {"group.id": "connect-cluster", "offset.storage.topic": "connect-offsets"}
"""The names of Kafka's own `connect-distributed.properties`."""
STANDALONE_FILE = "offset.storage.file.filename"

CHECKPOINT_KEYS = re.compile(r"(?:emit\.checkpoints|checkpoints|sync\.group|refresh\.groups|groups?|group\.filter)\b.*")
"""Keys that a MirrorCheckpointConnector reads and the source connector does not."""
_HEARTBEAT_KEYS = re.compile(r"(?:emit\.heartbeats|heartbeats\.topic)\b.*")
_ALIASES = {"source.cluster.alias": "source", "target.cluster.alias": "target"}
_OF_CONNECT = frozenset({CLASS, "name", *_ALIASES})
_CONVERTERS = frozenset({"key.converter", "value.converter", "header.converter"})
_SIDES = ("source", "target")
_WORKER_KEYS = frozenset(key.name for key in keys_of(Scope.WORKER, Scope.STORAGE, Scope.FILE))
_FILE_KEYS = frozenset(key.name for key in keys_of(Scope.FILE))

Remark = tuple[str, Entry]


def flow_properties(parts: Sequence[Part]) -> Properties:
    """The flows of all connectors, each entry with its file and line. Raises ConfigError."""
    connectors = [part for part in parts if part.role is not Role.WORKER]
    worker = _the_worker(parts)
    if not connectors:
        assert worker is not None
        hint = "give the connectors' files with it, as to `connect-standalone`"
        raise ConfigError("this is the file of a Connect worker, which alone mirrors nothing", hint, file=worker.file)
    translation = _Translation(connectors, worker)
    entries: dict[str, Entry] = {}
    for entry in translation.entries():
        entries.setdefault(entry.key, entry)
    remarks = [remark for part in parts for remark in part.remarks]
    files = tuple(dict.fromkeys(part.file for part in (*connectors, *([worker] if worker else []))))
    return Properties(files[0], entries, remarks=(*remarks, *translation.remarks), files=files)


def _the_worker(parts: Sequence[Part]) -> Part | None:
    workers = [part for part in parts if part.role is Role.WORKER]
    if len(workers) > 1:
        first, second = workers[:2]
        message = (
            f"a second Connect worker beside that of {first.file}: a flow has its positions in one Connect cluster"
        )
        raise ConfigError(message, "run its connectors by themselves", line=second.line, file=second.file)
    return workers[0] if workers else None


def flow_of(part: Part) -> FlowName:
    """The aliases of a connector; Connect's defaults are `source` and `target`."""
    aliases = (part.settings[key].value.strip() if key in part.settings else "" for key in _ALIASES)
    return FlowName(*(alias or default for alias, default in zip(aliases, _ALIASES.values(), strict=True)))


class _Translation:
    """All parts, turned into entries; `remarks` are complete when these are."""

    def __init__(self, connectors: Sequence[Part], worker: Part | None) -> None:
        self._worker = worker
        self.remarks: list[Remark] = []
        self._flows: dict[FlowName, dict[Role, Part]] = {}
        for part in connectors:
            self._place(part)

    def _place(self, part: Part) -> None:
        flow = flow_of(part)
        if flow.source == flow.target:
            entry = next((part.settings[key] for key in _ALIASES if key in part.settings), None)
            message = f"source and target have the same alias, `{flow.source}`"
            hint = "give them two, by `source.cluster.alias` and `target.cluster.alias`"
            raise ConfigError(message, hint, line=entry.line if entry else part.line, file=part.file)
        other = self._flows.setdefault(flow, {}).setdefault(part.role, part)
        if other is not part:
            message = f"two {part.role.value}s lead from `{flow.source}` to `{flow.target}`, the first in {other.file}"
            raise ConfigError(message, "make one of them, with both lists", line=part.line, file=part.file)

    def entries(self) -> Iterator[Entry]:
        """The entries in the order of importance: of equal keys the first counts."""
        first = next(iter(next(iter(self._flows.values())).values()))
        yield _entry(
            "clusters", ", ".join(dict.fromkeys(alias for flow in self._flows for alias in _aliases(flow))), first
        )
        yield _entry("emit.heartbeats.enabled", "false", first)
        for flow, parts in self._flows.items():
            yield from self._flow(flow, [parts[role] for role in CONNECTORS if role in parts])
        for target in dict.fromkeys(flow.target for flow in self._flows):
            yield from self._worker_entries(target)

    # A flow.

    def _flow(self, flow: FlowName, parts: Sequence[Part]) -> Iterator[Entry]:
        by_role = {part.role: part for part in parts}
        source, checkpoint = by_role.get(Role.SOURCE), by_role.get(Role.CHECKPOINT)
        yield _entry(f"{flow}.enabled", _switch(source), source or parts[0])
        for name, entry in self._settings(flow, parts):
            yield from _translated(flow, name, entry)
        for role, key in ((Role.CHECKPOINT, "emit.checkpoints"), (Role.HEARTBEAT, "emit.heartbeats")):
            part = by_role.get(role)
            own = part.settings.get(f"{key}.enabled") if part is not None and part.runs else None
            yield (
                _moved(f"{flow}.{key}.enabled", own)
                if own
                else _entry(f"{flow}.{key}.enabled", _switch(part), part or parts[0])
            )
        if source is not None:
            yield from self._positions(flow, source)
        if checkpoint is not None and checkpoint.runs and _switch(source) == "false":
            yield _entry(f"{flow}.emit.checkpoints.alone", "true", checkpoint)
            yield _entry(f"{flow}.emit.offset-syncs.enabled", "false", checkpoint)

    def _positions(self, flow: FlowName, source: Part) -> Iterator[Entry]:
        """Under whose name, and where, Connect keeps them."""
        if not source.name:
            message = "the connector has no `name`, under which Connect keeps its positions"
            raise ConfigError(message, 'add it: `"name": "…"`', key="name", line=source.line, file=source.file)
        yield replace(
            source.settings.get("name") or _first_entry(source), key=f"{flow}.progress.connector", value=source.name
        )

    def _settings(self, flow: FlowName, parts: Sequence[Part]) -> Iterator[tuple[str, Entry]]:
        """The settings that count, by the names that connectors have; notes the others."""
        counts: dict[str, Entry] = {}
        for part in parts:
            for key, entry in part.settings.items():
                if key in _OF_CONNECT or _is_usual(key, entry):
                    continue
                reader = _reader_of(key, parts)
                if part.role is reader or key in _WORKER_KEYS or key.startswith(("source.cluster.", "target.cluster.")):
                    self._note_other(counts.setdefault(key, entry), entry)
                else:
                    self._note_idle(flow, key, entry, part, reader, parts)
        yield from counts.items()

    def _note_other(self, first: Entry, entry: Entry) -> None:
        if first is not entry and first.value.strip() != entry.value.strip():
            where = f"line {first.line} of {first.file}"
            shown = "another value" if is_secret(first.key) else f"`{first.value.strip()}`"
            self.remarks.append((f"`{entry.key}` has no effect: {where} has {shown}, which counts for all", entry))

    def _note_idle(
        self, flow: FlowName, key: str, entry: Entry, part: Part, reader: Role, parts: Sequence[Part]
    ) -> None:
        """Notes a line that this connector does not read, unless the connector that reads the key has the same line."""
        other = next((one.settings.get(key) for one in parts if one.role is reader), None)
        if other is not None and other.value.strip() == entry.value.strip():
            return
        if key.startswith(("consumer.", "producer.", "admin.", "tasks.max")) or not FLOW.knows(key):
            return  # of the connector's own clients and tasks, which there are none of here
        what = f"a {reader.value} reads it" if other is None else f"line {other.line} of {other.file} counts"
        self.remarks.append((f"`{key}` of the {part.role.value} of {flow} has no effect: {what}", entry))

    # The worker.

    def _worker_entries(self, target: str) -> Iterator[Entry]:
        flows = {flow: parts for flow, parts in self._flows.items() if flow.target == target}
        parts = [part for some in flows.values() for part in some.values()]
        has_address = any("target.cluster.bootstrap.servers" in part.settings for part in parts)
        if self._worker is not None:
            yield from self._of_worker(self._worker, target, has_address=has_address)
        sources = [some[Role.SOURCE] for some in flows.values() if Role.SOURCE in some]
        is_standalone = self._worker is not None and STANDALONE_FILE in self._worker.settings
        for source in sources[:1] if not is_standalone else ():
            defaults = STRIMZI_WORKER if source.is_strimzi else KAFKA_WORKER
            self._note_assumed(sources, defaults)
            yield from (_entry(f"{target}.{key}", value, source) for key, value in defaults.items())

    def _note_assumed(self, sources: Sequence[Part], defaults: Mapping[str, str]) -> None:
        given = {*(self._worker.settings if self._worker else ()), *(key for part in sources for key in part.settings)}
        if "offsets.storage.topic" in given:
            given.add("offset.storage.topic")
        missing = {key: value for key, value in defaults.items() if key not in given}
        if missing:
            assumed = " and ".join(f"`{key} = {value}`" for key, value in missing.items())
            whose = "a KafkaConnect resource" if sources[0].is_strimzi else "the worker's properties file"
            message = (
                f"a connector does not say where its Connect cluster keeps positions: {assumed} as that has by "
                f"default; give {whose} too, or write these keys into the connector"
            )
            self.remarks.append((message, _first_entry(sources[0])))

    def _of_worker(self, worker: Part, target: str, *, has_address: bool) -> Iterator[Entry]:
        settings = worker.settings
        if worker.is_strimzi:
            providers = provider_entries(settings, worker.line)
            yield from (replace(entry, file=worker.file) for entry in providers)
        for key, entry in settings.items():
            if key.startswith("config.providers") or key in _FILE_KEYS:
                yield _moved(key, entry)
            elif key in CLIENT_COMMON:
                if not has_address:
                    yield _moved(f"{target}.{key}", entry)
            elif key in _WORKER_KEYS or key.startswith("producer."):
                yield _moved(f"{target}.{key}", entry)
            elif key == STANDALONE_FILE:
                self.remarks.append((_how_standalone(entry.value.strip()), entry))
            elif not _is_idle(key):
                yield _moved(f"{target}.{key}", entry)


def _how_standalone(file: str) -> str:
    return (
        f"a standalone worker keeps positions in the file `{file}`: before the first run, `sparkmirror positions set "
        f"FILE --from-file {file} --execute` takes them over; without that topics are mirrored from their beginning"
    )


def _is_idle(key: str) -> bool:
    """Whether the worker's key is known and has no meaning without Connect."""
    return CLUSTER.unused(key) is not None or key.startswith(
        ("consumer.", "admin.", "key.conv", "value.conv", "header.")
    )


def _is_usual(key: str, entry: Entry) -> bool:
    """Whether it is the converter that MirrorMaker's connectors need, whose effect is always that of this program."""
    return key in _CONVERTERS and entry.value.strip().endswith(".ByteArrayConverter")


def _reader_of(key: str, parts: Sequence[Part]) -> Role:
    if CHECKPOINT_KEYS.fullmatch(key):
        return Role.CHECKPOINT
    return Role.HEARTBEAT if _HEARTBEAT_KEYS.fullmatch(key) else parts[0].role


def _translated(flow: FlowName, key: str, entry: Entry) -> Iterator[Entry]:
    """A connector's key where MirrorMaker's file has it."""
    for side, alias in zip(_SIDES, _aliases(flow), strict=True):
        if key.startswith(f"{side}.cluster."):
            yield _moved(f"{alias}.{key.removeprefix(f'{side}.cluster.')}", entry)
            return
        if key.startswith(f"{side}.admin."):
            yield _moved(f"{alias}.{key.removeprefix(f'{side}.')}", entry)
            return
    if key.startswith("admin."):
        yield from (_moved(f"{alias}.{key}", entry) for alias in _aliases(flow))
    elif key not in ("emit.checkpoints.enabled", "emit.heartbeats.enabled"):
        yield _moved(home_of(key, flow), entry)


def _moved(key: str, entry: Entry) -> Entry:
    return replace(entry, key=key)


def _aliases(flow: FlowName) -> tuple[str, str]:
    return flow.source, flow.target


def _entry(key: str, value: str, part: Part) -> Entry:
    return Entry(key, value, _first_entry(part).line, file=part.file)


def _first_entry(part: Part) -> Entry:
    return part.settings.get(CLASS) or Entry(CLASS, part.role.value, part.line, file=part.file)


def _switch(part: Part | None) -> str:
    return str(part is not None and part.runs).lower()
