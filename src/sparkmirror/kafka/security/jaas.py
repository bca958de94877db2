"""Reads the one line of JAAS that `sasl.jaas.config` holds; called by `kafka.settings`.

Follows Java's `org.apache.kafka.common.security.JaasConfig`: `<module class> <flag> key=value ... ;`, values bare or
in single or double quotes, with the escapes of `java.io.StreamTokenizer`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/
    |(?P<quoted>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<sign>[=;])
    |(?P<word>[^\s=;"']+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_CONTROL = {"n": "\n", "t": "\t", "b": "\b", "r": "\r", "f": "\f", "a": "\a", "v": "\v"}


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One login module entry. `options` usually holds a password: it is kept out of `repr`."""

    class_name: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> LoginModule:
    """The single login module of a client's `sasl.jaas.config`.

    Raises ValueError with a phrase that names what is wrong and never quotes the text, which holds secrets.
    """
    tokens = _tokens(text)
    if tokens[-1:] != [("sign", ";")]:
        raise ValueError("it must end with a semicolon")
    if ("sign", ";") in tokens[:-1]:
        raise ValueError("it must hold exactly one login module")
    if len(tokens) < 3 or tokens[1][1].lower() not in FLAGS:
        raise ValueError("the class of the login module must be followed by a flag such as 'required'")
    return LoginModule(tokens[0][1], _options(tokens[2:-1]))


def _options(tokens: list[tuple[str, str]]) -> dict[str, str]:
    options: dict[str, str] = {}
    for start in range(0, len(tokens), 3):
        key, *rest = tokens[start : start + 3]
        if len(rest) != 2 or rest[0] != ("sign", "=") or rest[1][0] == "sign":
            raise ValueError(f'option number {start // 3 + 1} is not of the form key="value"')
        options[key[1]] = rest[1][1]
    return options


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError("a quoted value is not closed")
        position = match.end()
        if kind := match.lastgroup:
            raw = match[kind]
            found.append((kind, _unquote(raw) if kind == "quoted" else raw))
    return found


def _unquote(raw: str) -> str:
    return _ESCAPE.sub(lambda match: _unescape(match[1]), raw[1:-1])


def _unescape(code: str) -> str:
    return chr(int(code, 8)) if code[0] in "01234567" else _CONTROL.get(code, code)
