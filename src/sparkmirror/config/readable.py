"""Whether others on this machine may read a file with secrets. Called while a file is read."""

import stat
from pathlib import Path

from sparkmirror.config.formats.properties import Entry, Properties
from sparkmirror.config.problems import Problems
from sparkmirror.config.secrets import is_secret


def warn_of_readers(properties: Properties, problems: Problems) -> None:
    """Of each file itself, where a secret stands in it."""
    first: dict[str, Entry] = {}
    for one in properties.entries.values():
        if one.value and not one.written and is_secret(one.key):
            first.setdefault(one.file or properties.file, one)
    for file, entry in first.items():
        warn_if_others_read(Path(file), entry, problems)


def warn_if_others_read(file: Path, entry: Entry, problems: Problems) -> None:
    """Of the file that holds the value of a secret `entry`."""
    if is_secret(entry.key) and others_may_read(file):
        problems.warn(f"`{entry.key}`: everybody on this machine may read `{file}`; use `chmod o-r`", entry)


def others_may_read(file: Path) -> bool:
    """False for what is no file, and for one in a directory that others may not enter."""
    try:
        real = file.resolve(strict=True)
        is_open = real.is_file() and bool(real.stat().st_mode & stat.S_IROTH)
        return is_open and all(above.stat().st_mode & stat.S_IXOTH for above in real.parents)
    except OSError:
        return False
