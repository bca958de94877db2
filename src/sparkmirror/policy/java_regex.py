"""Java's regular expressions, as far as names need them, by the `regex` package.

`java.util.regex` is not at hand where no JVM runs. The `regex` package in its version-1 mode with
ASCII classes agrees on sets (`[a-z&&[^q]]`), possessive quantifiers, POSIX and Unicode classes and inline flags.
What it writes differently is rewritten here: `\\Q…\\E`, `\\x{…}`, `\\0n`, `\\cX`, `\\e`, `\\k<name>`, and `||`, `~~`
inside a set. What it accepts but Java refuses is refused where a name could tell: a stray `{`, `(?P`, `(?R)`.
Known rest: `[a--b]` is an error in Java and a difference here, `[[:alpha:]]` a class here and single letters in Java,
`\\p{java…}` is refused here. None of these is of use for topic names.
"""

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Final, Protocol, cast

import regex

from sparkmirror.errors import ConfigError

log = logging.getLogger(__name__)

MATCH_SECONDS_MAX: Final = 0.5
"""A name has 249 characters at most: whatever takes longer than a millisecond backtracks."""
_SHOWN: Final = 200
ELEMENTS_MAX: Final = 100_000
"""The package writes counts out when it compiles: `((a{1000}){1000}){1000}`, from any order, would fill the memory."""

_TOKEN = regex.compile(
    r"""
      \\Q (?P<quoted> .*? ) (?: \\E | \Z )
    | \\x\{ (?P<hex> [0-9A-Fa-f]+ ) \}
    | \\0 (?P<octal> [0-3]?[0-7]{1,2} )
    | \\c (?P<control> . )
    | (?P<property> \\[pP]\{ [^}]* \} )
    | \\ (?P<escaped> . )
    | (?P<foreign> \(\?P | \(\?R )
    | (?P<quantifier> \{ \d+ (?: , \d* )? \} )
    | (?P<plain> . )
    """,
    regex.VERBOSE | regex.DOTALL,
)
_LITERALS: dict[str, Callable[[str], str]] = {
    "quoted": str,
    "hex": lambda digits: chr(int(digits, 16)),
    "octal": lambda digits: chr(int(digits, 8)),
    "control": lambda letter: chr(ord(letter) ^ 64),
}
_QUICK = regex.compile(r"[\w.*\\|-]*", regex.ASCII)
_ESCAPES = {"e": r"\x1b", "k": r"\g"}


class NamePattern(Protocol):
    """A compiled expression that is matched against whole names."""

    def fullmatch(self, name: str) -> object | None:
        """A match object when the whole of `name` matches. Raises SlowPattern."""


class SlowPattern(ConfigError):
    """Matching a name took so long that it was given up: the expression backtracks without end."""


class _Timed:
    """A pattern whose matching is bounded. One that has taken too long once is not tried again."""

    __slots__ = ("_compiled", "_expression", "_is_slow")

    def __init__(self, expression: str, compiled: "regex.Pattern[str]") -> None:
        self._expression = expression
        self._compiled = compiled
        self._is_slow = False

    def fullmatch(self, name: str) -> object | None:
        """Raises SlowPattern."""
        if not self._is_slow:
            try:
                found: object | None = self._compiled.fullmatch(name, timeout=MATCH_SECONDS_MAX)
                return found
            except TimeoutError:
                self._is_slow = True
                log.warning("`%s` takes too long to match a name, and is given up.", self._expression[:_SHOWN])
        raise SlowPattern(
            f"`{self._expression[:_SHOWN]}` takes more than {MATCH_SECONDS_MAX:g} s to match a name.",
            "Write it without nested repetitions.",
        )


class JavaPatternError(ValueError):
    """The expression is not a regular expression as Java knows them; the message says why."""


@lru_cache(maxsize=1024)
def compile_java(expression: str) -> NamePattern:
    """`expression` for whole-string matches, as `Pattern.compile(expression).matcher(name).matches()`.

    Raises JavaPatternError.
    """
    try:
        compiled = regex.compile(_translate(expression), regex.VERSION1 | regex.ASCII)
    except JavaPatternError:
        raise
    except regex.error as error:
        raise JavaPatternError(f"{error.msg} at position {error.pos}") from None
    except (RecursionError, OverflowError):
        raise JavaPatternError("it is nested too deep, or repeats too often") from None
    except (ValueError, KeyError):  # the second by the lowest release: a version within the expression
        raise JavaPatternError("it sets flags that do not go together") from None
    return cast(NamePattern, compiled) if _is_quick(expression) else _Timed(expression, compiled)


def _is_quick(expression: str) -> bool:
    """Whether it cannot backtrack for long: no groups, few repetitions. A look at the clock costs more than a match."""
    return _QUICK.fullmatch(expression) is not None and all(one.count("*") <= 2 for one in expression.split("|"))


def _translate(expression: str) -> str:
    depth = 0
    parts: list[str] = []
    size = _Size()
    for token in _TOKEN.finditer(expression):
        text = token.group()
        if not depth:
            size.add(text, is_count=token.lastgroup == "quantifier")
        if token.lastgroup == "plain":
            parts.append(_plain(text, depth, expression, token.start()))
            # A `[` nests inside a set, as in Java's unions and intersections.
            depth = max(0, depth + (text == "[") - (text == "]"))
        elif token.lastgroup == "quantifier":
            parts.append(text if not depth else regex.escape(text))
        elif token.lastgroup == "foreign" and not depth:
            raise JavaPatternError(f"`{text}` is not known to Java, at position {token.start()}")
        else:
            parts.append(_escape(token.lastgroup, token.group(token.lastgroup), text))
    return "".join(parts)


class _Size:
    """Counts the elements of an expression as they are when counts are written out, by its tokens outside of sets."""

    def __init__(self) -> None:
        self._open = [0]
        self._last = 0

    def add(self, text: str, *, is_count: bool) -> None:
        """Raises JavaPatternError when they are too many."""
        if is_count:
            more = self._last * max(0, int(text[1:-1].partition(",")[0]) - 1)
            self._last += more
            self._open[-1] += more
        elif text == "(":
            self._open.append(0)
        elif text == ")" and len(self._open) > 1:
            self._last = self._open.pop()
            self._open[-1] += self._last
        else:
            self._last = 1
            self._open[-1] += 1
        if self._open[-1] > ELEMENTS_MAX:
            raise JavaPatternError("it repeats too often")


def _plain(text: str, depth: int, expression: str, at: int) -> str:
    if text == "{" and not depth:
        raise JavaPatternError(f"`{{` without a count at position {at} (a comma ends an item of the list)")
    following = expression[at + 1 : at + 2]
    return f"\\{text}" if depth and text in "|~" and following == text else text


def _escape(kind: str, value: str, text: str) -> str:
    if kind in ("property", "foreign"):
        return text
    if kind == "escaped":
        return _ESCAPES.get(value, text)
    return cast(str, regex.escape(_LITERALS[kind](value)))
