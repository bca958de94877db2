"""Translates Kafka Connect's single message transformations and predicates to SQL expressions, or says why one cannot
be; pure.

Called by `config.flow.transforms`. MirrorMaker's keys, values and headers are bytes without a schema, so a class that
works on fields fails there with every record, and is refused here by name. A topic is the mirrored topic's name, as
there.

Source: `org.apache.kafka.connect.transforms` and its `predicates` of Kafka 4.3.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from sparkmirror.config.types import split_list
from sparkmirror.policy.java_regex import JavaPatternError, compile_java

T = TypeVar("T")

_PACKAGE = "org.apache.kafka.connect.transforms."
_BYTES = "works on the fields of keys or values, and mirrored ones are bytes: in MirrorMaker it fails with every record"
_COMMON = {"type", "predicate", "negate"}
_DATE_PATTERN = re.compile(
    r"(?:'[^']*'|(?:(?<!y)(?:yyyy|yy)(?!y)|(?<!M)M{1,4}(?!M)|(?<!S)SSS(?!S)|([dHms])\1?(?!\1))|_|[^\w'\[\]{}#])+"
)
"""What Java's SimpleDateFormat and Spark's formatter read alike: to the one `S` is the millisecond and brackets are
text, to the other a tenth of a second and what may be left out."""


class Unusable(Exception):
    """Completes "`key = class` …"."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Given:
    """A class and its settings, as the file has them."""

    kind: str
    settings: Mapping[str, str]

    def need(self, name: str) -> str:
        if not self.settings.get(name):
            raise Unusable(f"needs `{name}`")
        return self.settings[name]

    def check_names(self, *known: str) -> None:
        for name in self.settings:
            if name not in known and name not in _COMMON:
                raise Unusable(f"has no setting `{name}`", f"it knows {', '.join(known) or 'none'}")


@dataclass(frozen=True, slots=True)
class Table(Generic[T]):
    """Classes by their full names: those that are translated, and why others are refused."""

    what: str
    known: Mapping[str, Callable[[Given], T]]
    refused: Mapping[str, tuple[str, str]]

    def translate(self, given: Given) -> T:
        """Raises Unusable."""
        if found := self.known.get(given.kind):
            return found(given)
        if reason := self.refused.get(given.kind.partition("$")[0]):
            raise Unusable(*reason)
        raise Unusable(
            f"names a {self.what} that cannot be loaded here: Java classes do not run in SparkMirror",
            "write it as a Spark SQL expression (`transforms.where`, `transforms.set.<column>`) or a Python function",
        )


def literal(text: str) -> str:
    """`text` as a string of Spark SQL, which would put variables in place of `${…}`."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return "'" + escaped.replace("${", "\\u0024{") + "'"


def _whole(pattern: str) -> str:
    """The whole name, as Java's `matches`."""
    try:
        compile_java(pattern)
    except JavaPatternError as problem:
        raise Unusable(f"has the expression `{pattern}`, which is not a regular expression: {problem}") from None
    return literal(f"^(?:{pattern})$")


# Transformations: the column that is set and its expression; None for Filter, which drops.

Setting = tuple[str, str]


def _filter(given: Given) -> Setting | None:
    given.check_names()
    return None


def _insert_header(given: Given) -> Setting:
    given.check_names("header", "value.literal")
    header, value = literal(given.need("header")), literal(given.need("value.literal"))
    struct = f"struct({header} AS key, cast({value} AS binary) AS value)"
    return "headers", f"concat(coalesce(headers, array()), array({struct}))"


def _drop_headers(given: Given) -> Setting:
    given.check_names("headers")
    names = ", ".join(literal(name) for name in split_list(given.need("headers")))
    return "headers", f"filter(headers, header -> header.key NOT IN ({names}))"


def _regex_router(given: Given) -> Setting:
    given.check_names("regex", "replacement")
    pattern, replacement = _whole(given.need("regex")), literal(given.need("replacement"))
    return "target_topic", f"regexp_replace(target_topic, {pattern}, {replacement})"


def _timestamp_router(given: Given) -> Setting:
    given.check_names("topic.format", "timestamp.format")
    shape = given.settings.get("topic.format", "${topic}-${timestamp}")
    pattern = given.settings.get("timestamp.format", "yyyyMMdd")
    if not _DATE_PATTERN.fullmatch(pattern):
        raise Unusable(
            f"has the timestamp.format `{pattern}`, which is not translated",
            "yyyy, yy, MMMM, MMM, MM, M, SSS, and d, H, m and s once or twice are, with quoted text and signs but "
            "[ ] { } # between them; write others as `transforms.set.topic` with date_format",
        )
    date = f"date_format(timestamp, {literal(pattern)})"
    named = f"replace({literal(shape)}, {literal('${topic}')}, target_topic)"
    return "target_topic", f"replace({named}, {literal('${timestamp}')}, {date})"


_VALUE_TO_KEY = (
    _BYTES,
    "for JSON values write `transforms.set.key = get_json_object(cast(value as string), '$.field')`",
)
_ON_FIELDS = {
    "Cast": "cast(value as string) and get_json_object",
    "ExtractField": "get_json_object(cast(value as string), '$.field')",
    "Flatten": "from_json and to_json",
    "HoistField": "to_json(named_struct('field', cast(value as string)))",
    "InsertField": "from_json and to_json",
    "MaskField": "regexp_replace(cast(value as string), …)",
    "ReplaceField": "from_json and to_json",
    "SetSchemaMetadata": "nothing: there is no schema",
    "TimestampConverter": "to_timestamp and date_format",
    "HeaderFrom": "concat(headers, array(struct(…)))",
}
TRANSFORMS: Table[Setting | None] = Table(
    "transformation",
    {
        f"{_PACKAGE}{name}": translate
        for name, translate in {
            "Filter": _filter,
            "InsertHeader": _insert_header,
            "DropHeaders": _drop_headers,
            "RegexRouter": _regex_router,
            "TimestampRouter": _timestamp_router,
        }.items()
    },
    {
        f"{_PACKAGE}ValueToKey": _VALUE_TO_KEY,
        **{
            f"{_PACKAGE}{name}": (_BYTES, f"what it does to JSON can be written with `transforms.set.…`: {instead}")
            for name, instead in _ON_FIELDS.items()
        },
    },
)


# Predicates: a condition, never null.


def _topic_name_matches(given: Given) -> str:
    given.check_names("pattern")
    return f"coalesce(target_topic RLIKE {_whole(given.need('pattern'))}, false)"


def _has_header_key(given: Given) -> str:
    given.check_names("name")
    return f"coalesce(exists(headers, header -> header.key = {literal(given.need('name'))}), false)"


def _record_is_tombstone(given: Given) -> str:
    given.check_names()
    return "(value IS NULL)"


PREDICATES: Table[str] = Table(
    "predicate",
    {
        f"{_PACKAGE}predicates.{name}": translate
        for name, translate in {
            "TopicNameMatches": _topic_name_matches,
            "HasHeaderKey": _has_header_key,
            "RecordIsTombstone": _record_is_tombstone,
        }.items()
    },
    {},
)
