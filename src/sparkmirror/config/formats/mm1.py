"""Reads MirrorMaker 1's two files and its flags into the same frozen dataclasses that a MirrorMaker 2 file becomes.

The settings are written as a MirrorMaker 2 file, which `config/flow/flows.py` reads: Spark's workers are given that
text. `config/formats/mm1_names.py` has the old names. All problems are reported at once, each with the line of the file
that a person wrote. Called by `cli/kafka_mirror_maker.py`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from hashlib import sha256

import javaproperties

from sparkmirror.config.flow.flows import MirrorConfig, parse_config, understand
from sparkmirror.config.flow.security import check_security
from sparkmirror.config.formats.mm1_names import (
    AUTO_COMMIT,
    BYTE_CLASSES,
    CONSUMER,
    GROUP_MEMBERSHIP,
    INTERNAL_TOPICS,
    OLD_MESSAGE_BATCH_SIZE,
    OLD_VALUES,
    OWN_PARTITIONERS,
    PARTITIONERS,
    PRODUCER,
    SERIALIZERS,
    SHALLOW,
    Dialect,
)
from sparkmirror.config.formats.properties import ConfigWarning, Entry, Properties, parse_properties, read_properties
from sparkmirror.config.keys import table as keys
from sparkmirror.config.keys.client_keys import CLIENT_COMMON, SECURITY_NAMES
from sparkmirror.config.keys.key import Scope
from sparkmirror.config.keys.status_keys import STATUS_KEYS
from sparkmirror.config.keys.unused import UNUSED
from sparkmirror.config.reading import Problems, Reader
from sparkmirror.errors import ConfigError
from sparkmirror.model import Cluster
from sparkmirror.policy.filters import compile_names

TARGET = "target"
_GROUP_ID = "group.id"
_SERVERS = "bootstrap.servers"
_CODEC, _NO_CODEC = "compression.type", "none"
_COMMON = frozenset(CLIENT_COMMON)
_OF_THE_PROCESS = frozenset(key.name for key in STATUS_KEYS)
"""Keys of ours that either file may set: they are about the process."""


@dataclass(frozen=True, slots=True)
class MirrorMaker1:
    """The options of the command line. `include` and `exclude` are as typed; None where the option is not given."""

    consumer_files: tuple[str, ...]
    producer_file: str
    include: str | None = None
    exclude: str | None = None
    streams: int = 1
    producers: int | None = None
    abort_on_send_failure: bool = True
    offset_commit_interval_ms: int = 60_000


@dataclass(slots=True)
class _Client:
    """One file, translated: today's names, each with the line it came from."""

    problems: Problems
    settings: dict[str, Entry] = field(default_factory=dict)
    notes: list[ConfigWarning] = field(default_factory=list)
    shallow: Entry | None = None

    @property
    def is_shallow(self) -> bool:
        """Whether compressed sets are to be passed on without decompression."""
        return self.shallow is not None and self.shallow.value.strip().lower() == "true"

    @property
    def file(self) -> str:
        return self.problems.file

    def value(self, name: str) -> str:
        return self.settings[name].value.strip() if name in self.settings else ""


def translate_mm1(command: MirrorMaker1) -> MirrorConfig:
    """The flows of a MirrorMaker 1: one for each consumer file, named `<group>-<hash>->target`.

    Raises ConfigError that lists every problem of the files and the options.
    """
    return parse_config(read_files(command))


def read_files(command: MirrorMaker1) -> Properties:
    """The lines of the MirrorMaker 2 file that does the same; its `warnings` say what is odd about the two files.

    Raises ConfigError that lists every problem of the files and the options.
    """
    consumers = [_read_client(file, CONSUMER, Scope.CONSUMER) for file in command.consumer_files]
    producer = _read_client(command.producer_file, PRODUCER, Scope.PRODUCER)
    for consumer in consumers:
        _require_servers(consumer, "zookeeper.connect", "zk.connect")
        _require_group(consumer)
    _require_servers(producer, "zk.connect")
    for client, alias in (*((consumer, "source") for consumer in consumers), (producer, TARGET)):
        check_security(_cluster(client, alias), client.settings, client.problems)
    options = Problems("the command line")
    topics = _topic_lines(command, options)
    _refuse_same_cluster(consumers, producer)
    _tell_codec(consumers, producer)
    _raise_all([*(consumer.problems for consumer in consumers), producer.problems, options])
    text = render_flows(command, consumers, producer, topics)
    notes = [note for client in (*consumers, producer) for note in (*client.problems.warnings(), *client.notes)]
    properties = parse_properties(text, "kafka-mirror-maker")
    notes += map(ConfigWarning, _wildcard_notes(split_patterns(command.include or command.exclude or "")))
    return replace(properties, warnings=tuple(dict.fromkeys(notes)))


def load_consumer(file: str) -> tuple[Cluster, str]:
    """The source cluster and the group of a consumer file alone, for a look at its lag. Raises ConfigError."""
    consumer = _read_client(file, CONSUMER, Scope.CONSUMER)
    _require_servers(consumer, "zookeeper.connect", "zk.connect")
    _require_group(consumer)
    _raise_all([consumer.problems])
    return _cluster(consumer, "source"), consumer.value(_GROUP_ID)


def _cluster(client: _Client, alias: str) -> Cluster:
    return Cluster(alias, {name: entry.value.strip() for name, entry in client.settings.items() if name in _COMMON})


def render_flows(
    command: MirrorMaker1, consumers: Sequence[_Client], producer: _Client, topics: Mapping[str, str]
) -> str:
    """The MirrorMaker 2 file that does the same, without a date."""
    aliases = [source_alias(consumer.value(_GROUP_ID), consumer.value(_SERVERS)) for consumer in consumers]
    lines = {"clusters": ", ".join(dict.fromkeys((*aliases, TARGET))), **_COMMON_LINES, **topics}
    lines["tasks.max"] = str(command.streams)
    lines["on.send.failure"] = "fail" if command.abort_on_send_failure else "retry"
    lines["progress.group.commit.interval.ms"] = str(command.offset_commit_interval_ms)
    if command.producers is not None:
        lines["connections.per.broker"] = str(command.producers)
    lines |= dict(_client_lines(TARGET, "producer", producer.settings))
    for alias, consumer in zip(aliases, consumers, strict=True):
        settings = {name: entry for name, entry in consumer.settings.items() if name != _GROUP_ID}
        lines |= dict(_client_lines(alias, "consumer", settings))
        # Java's consumer begins at the end, MirrorMaker 2's at the beginning.
        lines.setdefault(f"{alias}.consumer.auto.offset.reset", "latest")
        if consumer.is_shallow and producer.value(_CODEC) == _NO_CODEC:
            lines[f"{alias}->{TARGET}.producer.override.{_CODEC}"] = "source"
        lines[f"{alias}->{TARGET}.enabled"] = "true"
        lines[f"{alias}->{TARGET}.progress.group.id"] = consumer.value(_GROUP_ID)
    return str(javaproperties.dumps(lines, timestamp=None))


_COMMON_LINES: Mapping[str, str] = {
    "replication.policy.class": "sparkmirror.policy.naming:SameNamePolicy",
    "replication.factor": "-1",
    "topic.creation": "broker",
    "partitioning": "key",
    "offset.storage.partitions": "5",
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "heartbeats.replication.enabled": "false",
    "emit.heartbeats.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "emit.offset-syncs.enabled": "false",
}


def source_alias(group: str, servers: str) -> str:
    """The alias of the cluster that `group` reads at `servers`: legal in topic names, the same at every start.

    Mirrors from several clusters into one often share the name of their group; the hash keeps their positions apart.
    """
    addresses = ",".join(sorted(server.strip().lower() for server in servers.split(",")))
    digest = sha256(f"{group}\n{addresses}".encode()).hexdigest()[:6]
    return f"{re.sub('[^A-Za-z0-9_-]', '_', group)[:60]}-{digest}"


def split_patterns(text: str) -> tuple[str, ...]:
    """A list of MirrorMaker 1, as its `TopicFilter` reads it: commas are choices, blanks and outer quotes go.

    `*` alone stands for all topics, as MirrorMaker 1's manual has it.
    """
    bare = text.replace(" ", "").strip("\"'\t\n")
    return tuple(dict.fromkeys(".*" if item == "*" else item for item in bare.split(",") if item))


def _wildcard_notes(patterns: Sequence[str]) -> Iterator[str]:
    """Notes on expressions that look like a shell's wildcards, which mean something else here."""
    for pattern in patterns:
        if re.fullmatch(r"[\w.\-]*\w\*", pattern):
            stem = pattern[:-1]
            yield (
                f"`{pattern}` is a regular expression: it matches {stem[:-1] or 'nothing'}, {stem}, {stem}{stem[-1]} "
                f"and so on; all topics that begin with {stem} are `{stem}.*`"
            )


def _tell_codec(consumers: Sequence[_Client], producer: _Client) -> None:
    """Notes whether compressed sets are unpacked on the way, which MirrorMaker 1 decided by two files."""
    entry, codec = producer.settings.get(_CODEC), producer.value(_CODEC)
    opened = [consumer.file for consumer in consumers if not consumer.is_shallow]
    if entry is not None and codec == _NO_CODEC and opened:
        producer.problems.warn(
            f"`{entry.key} = {entry.value.strip()}`: compressed sets of {', '.join(opened)} are unpacked, as by "
            "MirrorMaker 1; without this line, or with `shallowiterator.enable = true` there, they stay as they are",
            entry,
        )
    for consumer in consumers:
        if consumer.shallow is None:
            continue
        key, value = consumer.shallow.key, consumer.shallow.value.strip()
        if not consumer.is_shallow:
            what = "has no effect: whether sets are unpacked, `compression.type` of the producer says"
        elif codec in ("", _NO_CODEC, "source"):
            what = "compressed sets stay as they are"
        else:
            what = f"has no effect: the producer asks for {codec}, so sets of other codecs are compressed again"
        consumer.problems.warn(f"`{key} = {value}`: {what}", consumer.shallow)


def _topic_lines(command: MirrorMaker1, problems: Problems) -> dict[str, str]:
    given = [name for name in (command.include, command.exclude) if name is not None]
    if len(given) != 1:
        wrong = (
            "--whitelist and --blacklist exclude each other"
            if given
            else "neither --whitelist nor --blacklist is given"
        )
        problems.error(wrong, "exactly one of them (or --include and --exclude) says which topics are mirrored")
        return {}
    patterns = split_patterns(given[0])
    option = "--whitelist" if command.include is not None else "--blacklist"
    try:
        if compile_names(patterns) is None:
            problems.error(f"{option} `{given[0]}` holds no expression", "`.*` stands for all topics")
    except ConfigError as error:
        hint = (
            "a regular expression is meant: `.*` stands for any text, where a shell has `*`" if "*" in given[0] else ""
        )
        problems.error(f"{option}: {error}", hint)
    listed = ", ".join(patterns)
    if command.include is not None:
        return {"topics": listed, "topics.exclude": ""}
    return {"topics": ".*", "topics.exclude": listed}


def _client_lines(alias: str, role: str, settings: Mapping[str, Entry]) -> Iterator[tuple[str, str]]:
    for name, entry in settings.items():
        if name in _OF_THE_PROCESS:
            yield name, entry.value
        else:
            yield f"{alias}.{name}" if name in _COMMON else f"{alias}.{role}.{name}", entry.value


# One file.


def _read_client(file: str, dialect: Dialect, scope: Scope) -> _Client:
    client = _Client(Problems(file))
    properties = understand(read_properties(file), client.problems)
    effective = {key.name for key in keys.keys_of(scope, Scope.CLIENT)} | {*SECURITY_NAMES, _GROUP_ID} | _OF_THE_PROCESS
    old: list[str] = []
    idle: list[str] = []
    for entry in properties.entries.values():
        name = dialect.renamed.get(entry.key, entry.key)
        if name != entry.key and name in properties.entries:
            client.problems.warn(f"`{entry.key}` has no effect beside `{name}`, its name of today", entry)
        elif entry.key in SHALLOW and dialect is CONSUMER:
            client.shallow = entry
        elif sentence := _explain(entry, dialect):
            client.problems.warn(f"`{entry.key}` has no effect: {sentence}", entry)
        elif entry.key in dialect.quiet or entry.key.startswith("config.providers"):
            continue
        elif name in effective:
            client.settings[name] = Entry(entry.key, _value_of(entry), entry.line)
            old += [f"`{entry.key}` as `{name}`"] if name != entry.key else []
        elif any(key.name == name for key in UNUSED):
            idle.append(f"`{entry.key}`")
        else:
            unknown = f"`{entry.key}` is not a known setting and has no effect{_near(name, effective)}"
            client.problems.warn(unknown, entry)
    _check_values(client, scope)
    if old:
        client.notes.append(ConfigWarning(f"old names are understood: {', '.join(old)}", file=file))
    if idle:
        client.notes.append(ConfigWarning(f"no effect here: {', '.join(idle)}", file=file))
    return client


def _explain(entry: Entry, dialect: Dialect) -> str:
    """Why a line has no effect, where that is worth a sentence."""
    value = entry.value.strip()
    if entry.key in SERIALIZERS and not value.endswith(BYTE_CLASSES):
        return SERIALIZERS[entry.key]
    if entry.key in AUTO_COMMIT and value.lower() == "true":
        return AUTO_COMMIT[entry.key]
    if entry.key in INTERNAL_TOPICS and value.lower() == "false":
        return INTERNAL_TOPICS[entry.key]
    if entry.key in PARTITIONERS and not value.endswith(OWN_PARTITIONERS):
        return PARTITIONERS[entry.key]
    if entry.key == "batch.size" and dialect is PRODUCER and value.isdigit() and int(value) < OLD_MESSAGE_BATCH_SIZE:
        return "it counted messages in Kafka 0.7 and counts bytes today; give it in bytes"
    if dialect.renamed.get(entry.key) == "metadata.max.age.ms" and value.startswith("-"):
        return "leaders are also looked up where nothing has failed"
    return dialect.explained.get(entry.key) or GROUP_MEMBERSHIP.get(entry.key, "")


def _value_of(entry: Entry) -> str:
    convert = OLD_VALUES.get(entry.key)
    return entry.value if convert is None else convert(entry.value)


def _near(name: str, known: set[str]) -> str:
    near = get_close_matches(name, known, n=1, cutoff=0.75)
    return f"; did you mean `{near[0]}`?" if near else ""


def _check_values(client: _Client, scope: Scope) -> None:
    reader = Reader(client.settings, client.problems)
    for key in keys.keys_of(scope, Scope.CLIENT):
        reader.read(key)


def _require_servers(client: _Client, *old: str) -> None:
    if client.value(_SERVERS):
        return
    lines = read_properties(client.file).entries
    entry = next((lines[name] for name in old if name in lines), None)
    message = "`bootstrap.servers` is missing"
    if entry is not None:
        message = f"`{entry.key}` is not enough: Kafka's brokers are asked, and ZooKeeper no longer knows them"
    client.problems.error(message, "add a line such as `bootstrap.servers=broker1:9092,broker2:9092`", entry)


def _require_group(client: _Client) -> None:
    if not client.value(_GROUP_ID):
        hint = "add a line such as `group.id=mirror`: the consumer group on the source that holds the progress"
        client.problems.error("`group.id` is missing", hint, client.settings.get(_GROUP_ID))


def _refuse_same_cluster(consumers: Sequence[_Client], producer: _Client) -> None:
    """Refuses a file whose two clusters have the same address; `sync.source_group` compares the clusters' ids."""
    target = _hosts(producer)
    seen: dict[str, str] = {}
    for consumer in consumers:
        if shared := sorted(_hosts(consumer) & target):
            consumer.problems.error(
                f"source and target are the same cluster: both files name {shared[0]}",
                "topics keep their names, so every record would be mirrored to its own topic, again and again",
                consumer.settings.get(_SERVERS),
            )
        alias = source_alias(consumer.value(_GROUP_ID), consumer.value(_SERVERS))
        if (first := seen.setdefault(alias, consumer.file)) != consumer.file:
            consumer.problems.error(f"it reads the same cluster as the same group as {first}", "give one of them")


def _hosts(client: _Client) -> set[str]:
    return {host.strip().lower() for host in client.value(_SERVERS).split(",") if host.strip()}


def _raise_all(files: Sequence[Problems]) -> None:
    errors = [error for problems in files for error in sorted(problems.errors, key=lambda error: error.line)]
    if len(errors) == 1:
        raise errors[0]
    if errors:
        listed = "\n".join(f"- {error}" for error in errors)
        raise ConfigError(f"the mirror cannot start for {len(errors)} reasons:\n{listed}")
