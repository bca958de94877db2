"""Reads a mirror's files whatever their form: MirrorMaker 2 properties, a Strimzi resource, or connectors of Kafka
Connect. Called by the verbs.
"""

from collections.abc import Sequence
from pathlib import Path

from sparkmirror.config.connector_parts import Part, parts_of_json, parts_of_properties, parts_of_resources
from sparkmirror.config.connectors import flow_properties
from sparkmirror.config.formats.properties import Properties, parse_properties, read_bytes
from sparkmirror.config.formats.strimzi import is_resource, parse_strimzi
from sparkmirror.config.formats.yaml_lines import read_documents
from sparkmirror.errors import ConfigError

YAML_ENDS = (".yaml", ".yml", ".json")


def read_mirror_file(path: str | Path, secrets_directory: str | Path | None = None) -> Properties:
    """The lines of the file at `path`; a Strimzi resource or a connector as the properties it means.

    Secrets of a resource are in `secrets_directory`, by default `secrets` beside the file. Raises ConfigError.
    """
    return read_mirror_files([path], secrets_directory)


def read_mirror_files(paths: Sequence[str | Path], secrets_directory: str | Path | None = None) -> Properties:
    """Reads one file as `read_mirror_file` does; several files are connectors, with their worker if need be."""
    found = [_read(path, secrets_directory) for path in paths]
    parts = [part for one in found if isinstance(one, tuple) for part in one]
    for path, one in zip(paths, found, strict=True):
        if isinstance(one, Properties):
            if len(paths) == 1:
                return one
            message = "several files are connectors of MirrorMaker 2, and perhaps their worker; this is neither"
            raise ConfigError(message, "give this file alone", file=str(path))
    return flow_properties(parts)


def is_connector_file(path: str) -> bool:
    """Whether the file at `path` can be read and holds connectors, or their worker."""
    try:
        return isinstance(_read(path, None), tuple)
    except ConfigError:
        return False


def _read(path: str | Path, secrets_directory: str | Path | None) -> Properties | tuple[Part, ...]:
    data, file = read_bytes(path), str(path)
    if b"\0" in data:
        raise ConfigError("this is no text, or it is UTF-16", "save it as UTF-8", file=file)
    if not file.endswith(YAML_ENDS) and not is_resource(data.decode("utf-8", "replace")):
        properties = parse_properties(data, file)
        return parts_of_properties(properties) or properties
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError("this is not YAML: it is not UTF-8", file=file) from None
    secrets = (Path(secrets_directory) if secrets_directory else Path(path).parent / "secrets").absolute()
    is_json = not file.endswith((".yaml", ".yml")) and text.lstrip().startswith(("{", "["))
    if is_json and (parts := parts_of_json(text, file)):
        return parts
    return parts_of_resources(read_documents(text, file), file, secrets) or parse_strimzi(text, file, secrets)
