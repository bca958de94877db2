"""Parses values: one small parser per type, each with the words that tell a person what the type takes.

A parser takes the text of the file and raises ValueError with a phrase that completes "`key` …". Types are Java's
(`ConfigDef.parseType`): values are trimmed, `true` and `false` in any case, whole numbers in decimal digits.

Tokens that could be guessed are refused: examples, words in a row, runs and repetitions. Nothing more can be measured.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log2
from typing import Final, Generic, TypeVar

from sparkmirror.errors import ConfigError
from sparkmirror.policy.addresses import in_brackets
from sparkmirror.policy.filters import compile_names
from sparkmirror.policy.loss import LossRule, parse_rules
from sparkmirror.policy.rates import RateLimit, parse_rate
from sparkmirror.policy.start import parse_kept_start, parse_start

T = TypeVar("T")

_WHOLE = re.compile(r"[+-]?[0-9]+")
_OWN_CLASS = re.compile(r"[\w.]+:\w+")
_JAVA_CLASS = re.compile(r"[^\W\d][\w$]*(\.[^\W\d][\w$]*)*")
_ADDRESS = re.compile(r"(?P<host>[^\s:/\[\],@]+|\[[0-9a-fA-F:.]+\]):(?P<port>[0-9]{1,5})", re.ASCII)
_TOKEN_LENGTH_MIN = 16
_HOST = re.compile(r"(?:[\w%.-]*://)?(?:[^\s:/\[\],]+|\[[0-9a-fA-F:.%]+\]):(?P<port>[0-9]{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """The address to listen at, or none when `host` is empty; it is without IPv6's brackets. Port 0 takes any free
    one."""

    host: str
    port: int

    def __bool__(self) -> bool:
        return bool(self.host)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if host else ""


NOWHERE = Address("", 0)


@dataclass(frozen=True, slots=True)
class Type(Generic[T]):
    """`label` names the type in the documentation; `parse` turns text into a value or raises ValueError.

    With `verbatim` a `#` after a blank belongs to the value; else it begins a comment.
    """

    label: str
    parse: Callable[[str], T]
    verbatim: bool = False


def whole(low: int, high: int = 2**31 - 1, *, unit: str = "", also: int | None = None) -> Type[int]:
    """A whole number from `low` to `high`, or exactly `also`; with a `unit` it is a duration or a size."""
    wanted = f"a whole number{f' of {unit}' if unit else ''} from {low} to {high}"
    wanted += f", or {also}" if also is not None else ""

    def parse(text: str) -> int:
        number = int(text) if _WHOLE.fullmatch(text := text.strip()) else None
        if number is None or not (low <= number <= high or number == also):
            raise ValueError(f"must be {wanted}")
        return number

    return Type(unit or "int", parse)


def choice(*values: str) -> Type[str]:
    """One of `values`, in any case; the value given back is written as listed."""
    by_case = {value.casefold(): value for value in values}

    def parse(text: str) -> str:
        if (value := by_case.get(text.strip().casefold())) is None:
            raise ValueError(f"must be {' or '.join(f'`{value}`' for value in values)}")
        return value

    return Type(" / ".join(values), parse)


def choices(*values: str) -> Type[tuple[str, ...]]:
    """Some of `values`."""

    def parse(text: str) -> tuple[str, ...]:
        items = _distinct(text)
        if not items or set(items) - set(values):
            raise ValueError(f"must be {' or '.join(f'`{value}`' for value in values)}, or several of them")
        return items

    return Type(f"list of {' / '.join(values)}", parse)


def class_name(classes: Mapping[str, str]) -> Type[str]:
    """One of the Java classes that this program re-implements, to its name here."""

    def parse(text: str) -> str:
        if (name := classes.get(text.strip())) is None:
            raise ValueError(f"names a class that cannot be used here; known are {', '.join(sorted(classes))}")
        return name

    return Type("class", parse)


def java_class(classes: Mapping[str, str]) -> Type[str]:
    """A Java class that this program re-implements, to its name here, or another one."""

    def parse(text: str) -> str:
        name = text.strip()
        if not _JAVA_CLASS.fullmatch(name):
            raise ValueError("must be the name of a Java class")
        return classes.get(name, name)

    return Type("class", parse)


def own_class(classes: Mapping[str, str]) -> Type[str]:
    """A Java class, as `java_class`, or a Python class of the user's: `module:Class`."""

    def parse(text: str) -> str:
        name = text.strip()
        if name not in classes and not _OWN_CLASS.fullmatch(name) and not _JAVA_CLASS.fullmatch(name):
            raise ValueError("must be the name of a Java class, or `module:Class` of Python, see docs/policies.md")
        return classes.get(name, name)

    return Type("class", parse)


def _boolean(text: str) -> bool:
    value = text.strip().lower()
    if value not in ("true", "false"):
        raise ValueError("must be true or false")
    return value == "true"


def _switch(text: str) -> bool:
    return text.strip().lower() == "true"


def split_list(text: str) -> tuple[str, ...]:
    """`a, b` as Kafka splits a LIST: at commas with the blanks around them; empty text is the empty list."""
    return tuple(re.split(r"\s*,\s*", text.strip())) if text.strip() else ()


def _distinct(text: str) -> tuple[str, ...]:
    """The items of a list, each once: Kafka drops what is named again."""
    items = split_list(text)
    if "" in items:
        raise ValueError("has an empty item; remove the comma that is one too many")
    return tuple(dict.fromkeys(items))


def _steps(text: str) -> tuple[str, ...]:
    items = split_list(text)
    if repeated := [item for index, item in enumerate(items) if item and item in items[:index]]:
        raise ValueError(f"names `{repeated[0]}` twice")
    return _distinct(text)


def _patterns(text: str) -> tuple[str, ...]:
    items = _distinct(text)
    try:
        compile_names(items)
    except ConfigError as error:
        raise ValueError(f"is not usable: {error}") from None
    return items


def _rates(text: str) -> tuple[RateLimit, ...]:
    limits = []
    for item in _distinct(text):
        pattern, colon, rate = item.rpartition(":")
        if not colon or not pattern.strip():
            raise ValueError(f"must list `PATTERN:RATE`, as in `audit.*:500kB`, not `{item}`")
        limits.append(RateLimit(pattern.strip(), parse_rate(rate)))
    _patterns(",".join(limit.pattern for limit in limits))
    return tuple(limits)


def _loss_rules(text: str) -> tuple[LossRule, ...]:
    rules = parse_rules(_distinct(text))
    _patterns(",".join(rule.pattern for rule in rules))
    return rules


def _hosts(text: str) -> str:
    hosts = split_list(text)
    for host in hosts or ("",):
        if better := in_brackets(host):
            raise ValueError(f"has an IPv6 address without brackets: write `{better}`, not `{host}`")
        match = _HOST.fullmatch(host)
        if match is None or int(match.group("port")) > 65535:
            raise ValueError(f"must list `host:port`, not `{host}`")
    return ",".join(hosts)


def _address(text: str) -> Address:
    if not text.strip():
        return NOWHERE
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match.group("port")) > 65535:
        raise ValueError("must be `host:port`, as in `localhost:8080`")
    return Address(match.group("host").strip("[]"), int(match.group("port")))


def _token(text: str) -> str:
    if len(text.strip()) < _TOKEN_LENGTH_MIN or not re.fullmatch("[!-~]+", text.strip()):
        raise ValueError(f"must be of at least {_TOKEN_LENGTH_MIN} letters, digits or signs of ASCII, without blanks")
    if problem := token_problem(text.strip()):
        raise ValueError(f"{problem}; `openssl rand -hex 24` makes a good one")
    return text.strip()


def _separator(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]*", text.strip()):
        raise ValueError("must be made of what a topic's name may hold: letters, digits, `.`, `_`, `-`")
    return text.strip()


ADDRESS = Type("host:port", _address)
TOKEN = Type("string", _token, verbatim=True)
STRING = Type("string", str.strip)
TEXT = Type("string", str.strip, verbatim=True)
BOOLEAN = Type("boolean", _boolean)
SWITCH = Type("boolean (anything but `true` is false)", _switch)
LIST = Type("list", _distinct)
STEPS = Type("list", _steps)
"""Names in an order that counts, as of Connect's transformations, where Connect refuses one that comes again."""
PATTERNS = Type("list of regular expressions", _patterns)
LOSS_RULES = Type("list of PATTERN:ACTION", _loss_rules)
RATES = Type("list of PATTERN:RATE", _rates)
HOSTS = Type("list of host:port", _hosts)
SEPARATOR = Type("string", _separator)
START = Type("earliest / latest / none / by_duration:…", parse_start)
KEPT_START = Type("earliest / latest / by_duration:… / a point in time", parse_kept_start)


_BITS_MIN: Final = 32.0
"""Sixteen random hexadecimal digits have 53 by this measure; of 300,000 tries ten had less than 34."""
_ECHO_LENGTH: Final = 3
_EXAMPLES: Final = re.compile(
    r"change.?(me|this|it)|replace.?(me|this|it)|example|pass.?word|your.?(token|secret)|qwert|letmein|insecure"
)


def token_problem(token: str) -> str:
    """Why `token` is none to trust, as the end of a sentence; empty when nothing is seen."""
    if _EXAMPLES.search(token.lower()):
        return "is an example, or a word that is tried first"
    if _surprise_bits(token) < _BITS_MIN:
        return "could be guessed: it repeats itself, or counts up"
    return ""


def _surprise_bits(token: str) -> float:
    """Each sign that does not follow from those before it counts by how many different ones there are."""
    surprising = sum(not _is_expected(token, at) for at in range(len(token)))
    return surprising * log2(max(len(set(token)), 1))


def _is_expected(token: str, at: int) -> bool:
    """Whether the sign continues a run, up or down or in place, or a piece that stood before."""
    if at >= 2:
        step = ord(token[at]) - ord(token[at - 1])
        if abs(step) <= 1 and step == ord(token[at - 1]) - ord(token[at - 2]):
            return True
    return at >= _ECHO_LENGTH and token[at - _ECHO_LENGTH + 1 : at + 1] in token[:at]
