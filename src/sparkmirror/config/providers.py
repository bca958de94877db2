"""Resolves config providers: `${file:/etc/secrets:password}` and its like become values when a file is read.

They work as Kafka's (`ConfigTransformer`, `FileConfigProvider`, `DirectoryConfigProvider`, `EnvVarConfigProvider`),
with one difference: a reference that leads nowhere is an error, where Kafka would take the text as it stands. People
are shown the reference, never the value (invariant 10). A file with secrets that other users of this machine may read
gives a warning. Called by `config/flow/flows.py`.
"""

import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from sparkmirror.config.formats.properties import Entry, Properties, read_properties
from sparkmirror.config.keys import table as keys
from sparkmirror.config.plugins import find_plugins
from sparkmirror.config.reading import Problems, Reader
from sparkmirror.config.secrets import is_secret
from sparkmirror.errors import ConfigError, SparkMirrorError
from sparkmirror.plugins import ClassPath
from sparkmirror.policy.java_classes import PROVIDER, JavaInstance
from sparkmirror.policy.java_regex import JavaPatternError, SlowPattern, compile_java

_REFERENCE = re.compile(r"\$\{(?P<provider>[^}:]*):(?:(?P<path>[^}:]*):)?(?P<key>[^}]*)\}")
"""As `ConfigTransformer.DEFAULT_PATTERN`: of several colons the second ends the path."""


class _NotFound(Exception):
    """A reference leads nowhere; the text says why."""


@dataclass(frozen=True, slots=True)
class _Provider:
    """One entry of `config.providers`."""

    kind: str
    parameters: Mapping[str, str]
    where: ClassPath

    def place(self, path: str, key: str) -> tuple[str, str]:
        """The same, with all that a directory's name may hold: a key with a slash is that of no file in it."""
        if self.kind == keys.DIRECTORY_PROVIDER and "/" in key:
            more, _, key = key.rpartition(":")
            path = f"{path}:{more}"
        return path, key

    def value(self, path: str, key: str) -> str:
        """Raises _NotFound."""
        if (look_up := _LOOKUPS.get(self.kind)) is not None:
            return look_up(self.parameters, path, key)
        try:
            found = _java_provider(self.kind, tuple(self.parameters.items()), self.where).provided(path, key)
        except ValueError as problem:
            raise _NotFound(f"its provider {problem}") from None
        except SparkMirrorError as problem:
            raise _NotFound(str(problem).rstrip(".")) from None
        if found is None:
            raise _NotFound(f"{self.kind} has no such key")
        return found

    def file(self, path: str, key: str) -> Path | None:
        """The file that holds the value; None for the environment."""
        return {keys.FILE_PROVIDER: Path(path), keys.DIRECTORY_PROVIDER: Path(path, key)}.get(self.kind)


def resolve(properties: Properties, problems: Problems) -> Properties:
    """`properties` with every reference to a provider of the file replaced; problems name key and line."""
    providers = _read_providers(properties, problems)
    _warn_of_literals(properties, providers, problems)
    if not providers:
        return properties
    entries = {key: _resolve_entry(entry, providers, problems) for key, entry in properties.entries.items()}
    return replace(properties, entries=entries)


def _warn_of_literals(properties: Properties, providers: Mapping[str, _Provider], problems: Problems) -> None:
    """Warns of text that looks like a reference and names no provider of the file; the rest of the value may be
    secret."""
    for entry in properties.entries.values():
        names = dict.fromkeys(match["provider"] for match in _REFERENCE.finditer(entry.value))
        for name in (one for one in names if one not in providers and not entry.key.startswith("config.providers")):
            message = f"`{entry.key}` holds `${{{name}:…}}`, which stays as it is written"
            problems.warn(message, entry, f"name `{name}` in `config.providers` to have it filled in")


def _read_providers(properties: Properties, problems: Problems) -> dict[str, _Provider]:
    reader = Reader(properties.entries, problems)
    names = reader.read(keys.CONFIG_PROVIDERS)
    where = find_plugins(properties, "", problems)
    classes = {name: kind for (name,), kind in reader.read_all(keys.CONFIG_PROVIDER_CLASS).items()}
    parameters = reader.read_all(keys.CONFIG_PROVIDER_PARAMETER)
    for name in names:
        if properties.get(f"config.providers.{name}.class") is None:
            message = f"`config.providers` names `{name}`, and `config.providers.{name}.class` is missing"
            problems.error(message, f"known are {', '.join(keys.PROVIDER_CLASSES)}", properties.get("config.providers"))
    return {
        name: _Provider(classes[name], {key: value for (of, key), value in parameters.items() if of == name}, where)
        for name in names
        if classes.get(name)
    }


def _resolve_entry(entry: Entry, providers: Mapping[str, _Provider], problems: Problems) -> Entry:
    if entry.key.startswith("config.providers"):
        return entry

    def look_up(match: re.Match[str]) -> str:
        provider = providers.get(match["provider"])
        if provider is None:
            return match.group()
        path, key = provider.place(match["path"] or "", match["key"])
        try:
            value = provider.value(path, key)
            if (file := provider.file(path, key)) is not None:
                warn_if_others_read(file, entry, problems)
            return value
        except _NotFound as reason:
            problems.error(f"`{match.group()}` in `{entry.key}` leads nowhere: {reason}", entry=entry)
            return match.group()

    value = _REFERENCE.sub(look_up, entry.value)
    return entry if value == entry.value else replace(entry, value=value, written=entry.value)


@cache
def _java_provider(name: str, parameters: tuple[tuple[str, str], ...], where: ClassPath) -> JavaInstance:
    """One for all references. Raises ValueError with a phrase."""
    return JavaInstance(name, PROVIDER, dict(parameters), where)


def _from_file(parameters: Mapping[str, str], path: str, key: str) -> str:
    _require_allowed(parameters, path)
    try:
        entry = read_properties(path).get(key)
    except ConfigError as error:
        raise _NotFound(str(error)) from None
    if entry is None:
        raise _NotFound(f"the file has no key `{key}`")
    return entry.value


def _from_directory(parameters: Mapping[str, str], path: str, key: str) -> str:
    _require_allowed(parameters, path)
    if "/" in key or key in ("", "..", "."):
        raise _NotFound(f"`{key}` is not the name of a file in the directory")
    try:
        return Path(path, key).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise _NotFound(f"the file `{Path(path, key)}` cannot be read: {reason}") from None


def _from_environment(parameters: Mapping[str, str], path: str, key: str) -> str:
    allowed = parameters.get("allowlist.pattern", "").strip()
    if path:
        raise _NotFound("a variable has no path; write `${provider:NAME}`")
    try:
        is_allowed = not allowed or compile_java(allowed).fullmatch(key) is not None
    except JavaPatternError as problem:
        raise _NotFound(f"`allowlist.pattern` is no Java regular expression: {problem}") from None
    except SlowPattern as problem:
        raise _NotFound(f"`allowlist.pattern`: {problem}") from None
    if not is_allowed:
        raise _NotFound("`allowlist.pattern` does not allow the variable")
    if (value := os.environ.get(key)) is None:
        raise _NotFound(f"the environment has no variable `{key}`")
    return value


def _require_allowed(parameters: Mapping[str, str], path: str) -> None:
    if not path:
        raise _NotFound("it names no path")
    allowed = [item.strip() for item in parameters.get("allowed.paths", "").split(",") if item.strip()]
    real = Path(path).resolve()
    if allowed and not any(real.is_relative_to(Path(item).resolve()) for item in allowed):
        raise _NotFound(f"`{path}` is not below `allowed.paths`")


_LOOKUPS: Mapping[str, Callable[[Mapping[str, str], str, str], str]] = {
    keys.FILE_PROVIDER: _from_file,
    keys.DIRECTORY_PROVIDER: _from_directory,
    keys.ENVIRONMENT_PROVIDER: _from_environment,
}


def warn_of_readers(properties: Properties, problems: Problems) -> None:
    """Warns of each file of the mirror that holds a secret and that others may read."""
    first: dict[str, Entry] = {}
    for one in properties.entries.values():
        if one.value and not one.written and is_secret(one.key):
            first.setdefault(one.file or properties.file, one)
    for file, entry in first.items():
        warn_if_others_read(Path(file), entry, problems)


def warn_if_others_read(file: Path, entry: Entry, problems: Problems) -> None:
    """Warns if others may read the file that holds the value of a secret `entry`."""
    if is_secret(entry.key) and others_may_read(file):
        problems.warn(f"`{entry.key}`: everybody on this machine may read `{file}`; use `chmod o-r`", entry)


def others_may_read(file: Path) -> bool:
    """Whether other users may read the file. False for a path that is no file, and in a directory that others may not
    enter."""
    try:
        real = file.resolve(strict=True)
        is_open = real.is_file() and bool(real.stat().st_mode & stat.S_IROTH)
        return is_open and all(above.stat().st_mode & stat.S_IXOTH for above in real.parents)
    except OSError:
        return False
