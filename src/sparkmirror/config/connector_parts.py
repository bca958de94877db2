"""Reads the files that make Kafka Connect run MirrorMaker 2: connectors and the worker, in each of their forms.

A connector is a properties file (`connect-standalone`), JSON (`{"name": …, "config": {…}}` as Connect's REST interface
takes it, the bare `config`, a list of such, or all connectors of a cluster), or a Strimzi `KafkaConnector`. A worker is
its properties file or a Strimzi `KafkaConnect`. `config/connectors.py` puts them together. Called by
`config/formats/files.py`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from sparkmirror.config.formats.properties import Entry, Properties
from sparkmirror.config.formats.strimzi import idle_fields_of_connector
from sparkmirror.config.formats.strimzi_login import Secrets, login_entries, trust_entries
from sparkmirror.config.formats.yaml_lines import Branch, read_documents, scalar_text
from sparkmirror.config.spelling import did_you_mean
from sparkmirror.errors import ConfigError

CLASS = "connector.class"
_PACKAGE = "org.apache.kafka.connect.mirror."
_CONNECTOR_KIND, _WORKER_KIND = "KafkaConnector", "KafkaConnect"
KINDS = (_CONNECTOR_KIND, _WORKER_KIND)
_CONNECTOR_FIELDS = ("class", "tasksMax", "config", "pause", "state", "autoRestart", "listOffsets", "alterOffsets")
# `KafkaConnectConfiguration` of the operator.
STRIMZI_WORKER = {"group.id": "connect-cluster", "offset.storage.topic": "connect-cluster-offsets"}
_WORKER_FIELDS = {"groupId": "group.id", "offsetStorageTopic": "offset.storage.topic"}
_OF_WORKERS = frozenset(
    ("key.converter", "value.converter", "plugin.path", "offset.storage.topic", "offset.storage.file.filename")
)
"""One of them makes a properties file a worker's, beside `bootstrap.servers`."""


class Role(Enum):
    """The role of a document, by the class of a connector."""

    SOURCE = "MirrorSourceConnector"
    CHECKPOINT = "MirrorCheckpointConnector"
    HEARTBEAT = "MirrorHeartbeatConnector"
    WORKER = "worker"


CONNECTORS = (Role.SOURCE, Role.CHECKPOINT, Role.HEARTBEAT)
_NAMES = [role.value for role in CONNECTORS]


@dataclass(frozen=True, slots=True)
class Part:
    """One connector or worker as written, each entry with its file and line. `name` is empty where none is given.

    `runs` is whether its state says so. `is_strimzi` tells whose defaults hold.
    """

    role: Role
    file: str
    line: int
    settings: Mapping[str, Entry]
    name: str = ""
    runs: bool = True
    is_strimzi: bool = False
    remarks: tuple[tuple[str, Entry], ...] = field(default=())


def parts_of_properties(properties: Properties) -> tuple[Part, ...]:
    """The connector or the worker of a properties file; none where it is neither. Raises ConfigError."""
    if "clusters" in properties.entries:
        return ()
    file = properties.file
    settings = {key: _in(file, entry) for key, entry in properties.entries.items()}
    again = f"is given again in {file}, which counts"
    remarks = tuple((f"`{entry.key}` {again}", _in(file, entry)) for entry in properties.replaced)
    if CLASS in settings:
        name = settings["name"].value.strip() if "name" in settings else ""
        return (Part(_role(settings[CLASS]), file, 1, settings, name, remarks=remarks),)
    if "bootstrap.servers" in settings and _OF_WORKERS & settings.keys():
        return (Part(Role.WORKER, file, 1, settings, remarks=remarks),)
    return ()


def parts_of_json(text: str, file: str) -> tuple[Part, ...]:
    """The connectors of a JSON text; none where it is something else, a resource of Kubernetes for instance.

    Raises ConfigError where it is no JSON.
    """
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"this is not JSON: {error.msg}", line=error.lineno, file=file) from None
    except RecursionError:
        raise ConfigError("this JSON is nested too deeply", file=file) from None
    # JSON is YAML, which keeps lines, but for tabs: they stand nowhere but between its tokens.
    (document,) = read_documents(text.replace("\t", " "), file) or (Branch(1),)
    listed = [info for one in document.fields.values() if (info := one.get("info")) is not None]
    if listed and len(listed) == len(document.fields):
        return _of_mirror_maker(listed, file)
    documents = document.items or (document,)
    if not all(_is_connector(one) for one in documents):
        return ()
    return tuple(_json_connector(one, file) for one in documents)


def _of_mirror_maker(listed: Sequence[Branch], file: str) -> tuple[Part, ...]:
    """The connectors of MirrorMaker among all of a Connect cluster (`GET /connectors?expand=info`). Raises ConfigError
    without any."""
    found = [one for one in listed if one.text_at("config", CLASS).removeprefix(_PACKAGE) in _NAMES]
    if not found:
        message = f"none of the {len(listed)} connectors is one of MirrorMaker 2"
        raise ConfigError(message, f"known are {', '.join(_NAMES)}", line=listed[0].line, file=file)
    return tuple(_json_connector(one, file) for one in found)


def parts_of_resources(documents: Sequence[Branch], file: str, secrets: Path) -> tuple[Part, ...]:
    """The connectors and the worker among Kubernetes resources; none where no connector is among them.

    `secrets` is the directory of the secrets. Raises ConfigError.
    """
    if not any(one.text_at("kind") in KINDS for one in documents):
        return ()
    for one in documents:
        if one.text_at("kind") not in KINDS:
            message = f"a resource of kind `{one.text_at('kind') or 'none'}` beside a {_CONNECTOR_KIND}"
            raise ConfigError(message, "write it to a file of its own", line=one.line, file=file)
    return tuple(
        _resource_connector(one, file)
        if one.text_at("kind") == _CONNECTOR_KIND
        else _resource_worker(one, file, secrets)
        for one in documents
    )


def _in(file: str, entry: Entry) -> Entry:
    return replace(entry, file=file)


def _role(entry: Entry) -> Role:
    """Connect takes a class by its whole name, its simple name, and that without `Connector`."""
    name = entry.value.strip().removeprefix(_PACKAGE)
    for role in CONNECTORS:
        if name in (role.value, role.value.removesuffix("Connector")):
            return role
    hint = did_you_mean(name, _NAMES) or f"known are {', '.join(_NAMES)}, of {_PACKAGE.rstrip('.')}"
    message = f"`{entry.key}: {entry.value.strip()}` is no connector of MirrorMaker 2"
    raise ConfigError(message, hint, key=entry.key, line=entry.line, file=entry.file)


# JSON.


def _is_connector(document: Branch) -> bool:
    return CLASS in document.fields or CLASS in (document.get("config") or Branch(0)).fields


def _json_connector(document: Branch, file: str) -> Part:
    is_bare = CLASS in document.fields
    config = document if is_bare else document.get("config") or document
    settings = {
        key: Entry(key, scalar_text(value, key, file), value.line, file=file) for key, value in config.fields.items()
    }
    name = "" if is_bare else document.text_at("name").strip()
    if not name and "name" in settings:
        name = settings["name"].value.strip()
    runs = is_bare or document.text_at("initial_state").upper() in ("", "RUNNING")
    return Part(_role(settings[CLASS]), file, document.line, settings, name, runs)


# Strimzi.


def _resource_connector(resource: Branch, file: str) -> Part:
    spec, name = resource.get("spec"), resource.text_at("metadata", "name")
    java_class = spec.get("class") if spec is not None else None
    if spec is None or java_class is None:
        raise ConfigError(f"the {_CONNECTOR_KIND} has no `spec.class`", line=resource.line, file=file)
    settings = _config(spec, file)
    if (tasks := spec.get("tasksMax")) is not None:
        settings["tasks.max"] = Entry("tasks.max", tasks.text, tasks.line, file=file)
    role = _role(Entry("spec.class", java_class.text, java_class.line, file=file))
    runs = spec.text_at("pause") != "true" and spec.text_at("state") in ("", "running")
    remarks = (
        *_unknown_fields(spec, file),
        *((message, replace(entry, file=file)) for message, entry in idle_fields_of_connector(spec)),
    )
    return Part(role, file, resource.line, settings, name, runs, is_strimzi=True, remarks=remarks)


def _unknown_fields(spec: Branch, file: str) -> Iterator[tuple[str, Entry]]:
    for name, value in spec.fields.items():
        if name not in (*_CONNECTOR_FIELDS, "version"):
            hint = did_you_mean(name, _CONNECTOR_FIELDS)
            message = f"`{name}` is not a field of a {_CONNECTOR_KIND} and has no effect{f'; {hint}' if hint else ''}"
            yield message, Entry(name, value.text, value.line, file=file)


def _resource_worker(resource: Branch, file: str, secrets: Path) -> Part:
    spec = resource.get("spec")
    if spec is None:
        raise ConfigError(f"the {_WORKER_KIND} has no `spec`", line=resource.line, file=file)
    settings = _config(spec, file)
    for name, key in (("bootstrapServers", "bootstrap.servers"), *_WORKER_FIELDS.items()):
        if (value := spec.get(name)) is not None:
            settings[key] = Entry(key, value.text, value.line, file=file)
    for key, default in STRIMZI_WORKER.items():
        settings.setdefault(key, Entry(key, default, spec.line, file=file))
    settings |= _login(spec, file, secrets)
    return Part(Role.WORKER, file, resource.line, settings, resource.text_at("metadata", "name"), is_strimzi=True)


def _login(spec: Branch, file: str, secrets: Path) -> dict[str, Entry]:
    """TLS and sign-in of the worker, whose secrets a config provider reads."""
    tls, login = spec.get("tls"), spec.get("authentication") or Branch(spec.line)
    entries = [
        *trust_entries("worker", tls, Secrets(secrets), file),
        *login_entries("worker", login, tls is not None, Secrets(secrets), file),
    ]
    named = ((entry.key.removeprefix("worker."), entry) for entry in entries)
    return {key: Entry(key, entry.value, entry.line, file=file) for key, entry in named}


def _config(spec: Branch, file: str) -> dict[str, Entry]:
    config = spec.get("config")
    fields = config.fields if config is not None else {}
    return {key: Entry(key, scalar_text(value, key, file), value.line, file=file) for key, value in fields.items()}
