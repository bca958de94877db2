"""Keeps the state that the page shows, so that each viewer can get the changes since its last request; pure.

Parts are small and are sent whole; tables have thousands of rows, of which only changed ones are sent. Each change gets
the next version number; a whole state is the changes since version 0. The threads of `web.watchers` write it, `web.api`
reads it.
"""

import threading
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

Row = tuple[Any, ...]
"""JSON values; each table defines its columns."""

_GONE_MAX: Final = 1000


class Table:
    """Rows by key, each with a permanent number and the version at which it last changed."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._rows: dict[object, tuple[int, Row]] = {}
        self._gone: dict[object, int] = {}
        self._forgotten = 0
        self._changed_at = 0

    def replace(self, rows: Mapping[Any, Row], version: int) -> bool:
        """Replaces all rows; returns whether any row is new, changed or gone."""
        gone = self._rows.keys() - rows.keys()
        for key in gone:
            del self._rows[key]
            self._gone[key] = self._changed_at = version
        changed = self.update(rows, version)
        if len(self._gone) > _GONE_MAX:
            self._forgotten = version
            self._gone.clear()
        return changed or bool(gone)

    def update(self, rows: Mapping[Any, Row], version: int) -> bool:
        """Sets these rows and keeps the others; returns whether any is new or changed."""
        changed = False
        for key, row in rows.items():
            known = self._rows.get(key)
            if known is None or known[1] != row:
                self._rows[key] = (version, row)
                self._numbers.setdefault(key, len(self._numbers))
                self._gone.pop(key, None)
                changed = True
        if changed:
            self._changed_at = version
        return changed

    def is_known_at(self, version: int) -> bool:
        """Whether the table still knows all rows that were removed since `version`."""
        return version == 0 or version >= self._forgotten

    def since(self, version: int) -> tuple[list[list[Any]], list[int]]:
        """The rows that changed after `version`, each with its number, and the numbers of removed rows."""
        if version >= self._changed_at:
            return [], []
        rows = [[self._numbers[key], *row] for key, (at, row) in self._rows.items() if at > version]
        return rows, [self._numbers[key] for key, at in self._gone.items() if at > version]

    def keys_of(self, numbers: Iterable[int]) -> dict[int, object]:
        """The keys of existing rows, by their numbers."""
        wanted = set(numbers)
        return {number: key for key in self._rows if (number := self._numbers[key]) in wanted}


class PageState:
    """Parts and tables by name; safe to use from any thread."""

    def __init__(self) -> None:
        self.life = uuid.uuid4().hex[:12]
        self._lock = threading.Lock()
        self._version = 0
        self._parts: dict[str, tuple[int, Any]] = {}
        self._tables: dict[str, Table] = {}

    @property
    def version(self) -> int:
        return self._version

    def put(self, name: str, value: Any) -> None:
        """Sets a part; `value` is JSON that the caller does not change afterwards."""
        with self._lock:
            known = self._parts.get(name)
            if known is None or known[1] != value:
                self._version += 1
                self._parts[name] = (self._version, value)

    def replace_rows(self, name: str, rows: Mapping[Any, Row]) -> None:
        """As `Table.replace`; creates the table on its first use."""
        with self._lock:
            if self._tables.setdefault(name, Table()).replace(rows, self._version + 1):
                self._version += 1

    def update_rows(self, name: str, rows: Mapping[Any, Row]) -> None:
        """As `Table.update`."""
        with self._lock:
            if self._tables.setdefault(name, Table()).update(rows, self._version + 1):
                self._version += 1

    def keys_of(self, name: str, numbers: Iterable[int]) -> dict[int, object]:
        """As `Table.keys_of`; empty for a table that does not exist."""
        with self._lock:
            table = self._tables.get(name)
            return {} if table is None else table.keys_of(numbers)

    def since(self, version: int, life: str = "") -> dict[str, Any]:
        """The changes since `version` of the process `life`, as JSON. `whole` is true where they are the whole
        state."""
        with self._lock:
            known = life == self.life and version <= self._version
            if not known or not all(table.is_known_at(version) for table in self._tables.values()):
                version = 0
            changes = {name: table.since(version) for name, table in self._tables.items()}
            return {
                "life": self.life,
                "version": self._version,
                "whole": version == 0,
                "parts": {name: value for name, (at, value) in self._parts.items() if at > version},
                "rows": {name: rows for name, (rows, _) in changes.items() if rows},
                "gone": {name: gone for name, (_, gone) in changes.items() if gone and version},
            }
