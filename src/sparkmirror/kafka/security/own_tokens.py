"""Tokens from a class of the user's: `sasl.login.callback.handler.class = module:Class`. Called by
`kafka.security.oauth`.

The class is made without arguments in each process that logs in. `token()` gives a new token as text, whenever the last
one has lived 80 % of its life (its `exp`, or five minutes); `extensions()`, where it has one, gives SASL extensions.
`configure(properties)` gets the client's properties and the options of the login module.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from sparkmirror.errors import AuthenticationFailed, ConfigError
from sparkmirror.own_class import find_class, make_instance

NAMES_OWN_CLASS = re.compile(r"[\w.]+:\w+").fullmatch
"""Whether a handler is a Python class rather than a Java class."""


@cache
def own_tokens(spec: str, properties: tuple[tuple[str, str], ...]) -> Any:
    """The one instance of a process. Raises ValueError with a phrase."""
    return make_instance(spec, find_class(spec), (), dict(properties), ("token",))


def check_own_tokens(key: str, spec: str, properties: Mapping[str, str]) -> None:
    """Raises ConfigError where no such class can be made."""
    try:
        own_tokens(spec, tuple(sorted(properties.items())))
    except ValueError as problem:
        raise ConfigError(f"{key}={spec} {problem}.", "See docs/security.md for what it must have.", key=key) from None


def ask_own(spec: str, properties: tuple[tuple[str, str], ...]) -> str:
    """A new token. Raises AuthenticationFailed: what `token()` raises is named by its kind, its words may be secret."""
    try:
        own = own_tokens(spec, properties)
    except ValueError as problem:
        hint = "The module must be importable where the mirror and its executors run."
        raise AuthenticationFailed(f"The token class {spec} {problem}.", hint) from None
    try:
        token = own.token()
    except Exception as problem:
        raise AuthenticationFailed(f"{spec} gives no token: it raised {type(problem).__name__}.") from None
    if not isinstance(token, str) or not token or not token.isprintable():
        raise AuthenticationFailed(f"{spec} gives no token: token() must give text of one line.")
    return token


def own_extensions(spec: str, properties: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """The SASL extensions of the class, none without such a method."""
    extensions = getattr(own_tokens(spec, properties), "extensions", None)
    return {str(name): str(value) for name, value in extensions().items()} if callable(extensions) else {}
