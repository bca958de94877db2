"""Reads the `transforms.schemas.…` and `transforms.avro.…` lines of a file: the schema registries of both sides of a
flow, and the schemas by which its expressions read and write Avro.

Called by `config.flow.transforms`. `spark.schema_ids` and `spark.avro_functions` make functions of them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from sparkmirror.config.flow.named_settings import group_by_name
from sparkmirror.config.flow.source_line import Source
from sparkmirror.config.formats.properties import Entry
from sparkmirror.config.keys.flow_keys import TRANSFORMS_AVRO_VERSION
from sparkmirror.config.reading import Problems

PREFIX: Final = "transforms.schemas."
AVRO: Final = "transforms.avro."
_SETTINGS: Final = ("source.url", "source.user.info", "target.url", "target.user.info")
_AVRO_SETTINGS: Final = ("subject", "version")


@dataclass(frozen=True, slots=True)
class Registry:
    """Where a schema registry is; `user_info` is `name:password` for HTTP's basic authentication, or ""."""

    url: str
    user_info: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A version of a subject of the source's registry, `latest` or a number, by which expressions read and write."""

    name: str
    subject: str
    version: str
    source: Source


@dataclass(frozen=True, slots=True)
class SchemaRegistries:
    """Those of the two clusters of a flow, which may be one; `line` names the target's. `avro` are schemas of the
    source's."""

    source: Registry
    target: Registry
    line: Source
    avro: tuple[AvroSchema, ...] = ()


def read_registries(entries: Mapping[str, Entry], problems: Problems) -> SchemaRegistries | None:
    """None where the file names none."""
    avro = tuple(_read_avro(entries, problems))
    given = {name.removeprefix(PREFIX): entry for name, entry in entries.items() if name.startswith(PREFIX)}
    for setting, entry in given.items():
        if setting not in _SETTINGS:
            hint = f"after {PREFIX} comes {', '.join(_SETTINGS)}"
            problems.error(f"`{entry.key}` is no setting of a schema registry", hint, entry)
    if not given:
        if avro:
            where = Entry(avro[0].source.key, "", avro[0].source.line, file=avro[0].source.file)
            hint = f"write `{PREFIX}source.url = http://…`"
            problems.error(f"`{where.key}` names a subject, and no registry has it", hint, where)
        return None
    values = {name: given[name].value.strip() if name in given else "" for name in _SETTINGS}
    if "target.url" not in given:
        values |= {"target.url": values["source.url"], "target.user.info": values["source.user.info"]}
    for side in ("source", "target"):
        if not values[f"{side}.url"].startswith(("http://", "https://")):
            some = given.get(f"{side}.url", next(iter(given.values())))
            problems.error(f"`{PREFIX}{side}.url` must be an http:// or https:// address", entry=some)
            return None
    source, target = (
        Registry(values[f"{side}.url"].rstrip("/"), values[f"{side}.user.info"]) for side in ("source", "target")
    )
    return SchemaRegistries(source, target, _source(given.get("target.url", given["source.url"]), problems), avro)


def _source(entry: Entry, problems: Problems) -> Source:
    return Source(entry.key, entry.line, entry.file or problems.file)


def _read_avro(entries: Mapping[str, Entry], problems: Problems) -> Iterator[AvroSchema]:
    named = group_by_name(entries, AVRO, _AVRO_SETTINGS, "schema", problems)
    for name, given in named.items():
        subject = given.get("subject")
        if subject is None or not subject.value.strip():
            hint = f"write `{AVRO}{name}.subject = orders-value`"
            problems.error(f"the schema `{name}` has no subject", hint, next(iter(given.values())))
        else:
            version = _version(given.get("version"), problems)
            yield AvroSchema(name, subject.value.strip(), version, _source(subject, problems))


def _version(entry: Entry | None, problems: Problems) -> str:
    version = TRANSFORMS_AVRO_VERSION.default if entry is None else entry.value.strip()
    if entry is not None and version != "latest" and not re.fullmatch("[1-9][0-9]*", version):
        problems.error(f"`{entry.key} = {version}` must be `latest` or the number of a version", entry=entry)
    return version
