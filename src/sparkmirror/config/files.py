"""Reads a mirror's file whatever its form: MirrorMaker 2 properties or a Strimzi resource. Called by the verbs."""

from pathlib import Path

from sparkmirror.config.properties import Properties, parse_properties, read_bytes
from sparkmirror.config.strimzi import is_resource, parse_strimzi
from sparkmirror.errors import ConfigError

YAML_ENDS = (".yaml", ".yml", ".json")


def read_mirror_file(path: str | Path, secrets_directory: str | Path | None = None) -> Properties:
    """The lines of the file at `path`; a Strimzi resource as the properties it means.

    Its secrets are in `secrets_directory`, by default `secrets` beside the file. Raises ConfigError.
    """
    data = read_bytes(path)
    if not str(path).endswith(YAML_ENDS) and not is_resource(data.decode("utf-8", "replace")):
        return parse_properties(data, str(path))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError("this is not YAML: it is not UTF-8", file=str(path)) from None
    secrets = Path(secrets_directory) if secrets_directory else Path(path).parent / "secrets"
    return parse_strimzi(text, str(path), secrets.absolute())
