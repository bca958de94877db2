"""Reads the `transforms.table.<name>.jdbc.…` lines of a file: a lookup table that a database has.

Called by `config.flow.lookup_tables`. `spark.jdbc_tables` reads the table by Spark's JDBC source.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sparkmirror.config.flow.source_line import Source
from sparkmirror.config.formats.properties import Entry
from sparkmirror.config.reading import Problems
from sparkmirror.config.secrets import is_secret

OPTION: Final = "jdbc.option."
_NAMES: Final = {
    "jdbc.url": "url",
    "jdbc.table": "dbtable",
    "jdbc.query": "query",
    "jdbc.user": "user",
    "jdbc.password": "password",
    "jdbc.driver": "driver",
}
"""Settings, and Spark's options that they stand for."""
SETTINGS: Final = tuple(_NAMES)
_DRIVERS: Final = {
    "postgresql": "org.postgresql.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
    "oracle": "oracle.jdbc.OracleDriver",
    "db2": "com.ibm.db2.jcc.DB2Driver",
    "h2": "org.h2.Driver",
}
"""Classes by the word behind `jdbc:`. In a jar that `spark.jars` names, Java finds a driver by its class alone."""
_ROWS_AT_ONCE: Final = "1000"
"""Without a fetch size PostgreSQL's driver, and others, hold all rows in memory before they give the first one."""
_USER_INFO: Final = re.compile(r"//[^/?#@]*:[^/?#@]*@|^jdbc:oracle:\w+:[^/@]*/[^@]*@")
_PARAMETER: Final = re.compile(r"[?&;:,(]\s*([^=?&;:,()\s]+)\s*=")


@dataclass(frozen=True, slots=True)
class JdbcSource:
    """The table or query of a database. `what` names it for people, `source` is the line of its address; `options` are
    Spark's, and hold its password."""

    what: str
    source: Source
    options: tuple[tuple[str, str], ...] = field(repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not be shown."""
        return tuple(value for name, value in self.options if value and is_secret(name))


def read_jdbc(name: str, given: Mapping[str, Entry], problems: Problems) -> JdbcSource | None:
    """The database's table of these settings, whose names begin with `jdbc.`; None where something is wrong with
    them."""
    values = {setting: given[setting].value.strip() for setting in given if setting in _NAMES}
    some = next(iter(given.values()))
    url = given.get("jdbc.url")
    prefix = some.key[: some.key.index(".jdbc.") + 1]
    if url is None or not values["jdbc.url"].startswith("jdbc:"):
        hint = f"write `{prefix}jdbc.url = jdbc:postgresql://host/database`"
        problems.error(f"the table `{name}` has no address of a database that begins with `jdbc:`", hint, url or some)
    elif _holds_password(values["jdbc.url"]):
        hint = f"write it as `{prefix}jdbc.password`, or as `{prefix}{OPTION}<parameter>`: those are shown nowhere"
        problems.error(f"`{url.key}` holds a password", hint, url)
    elif bool(values.get("jdbc.table")) == bool(values.get("jdbc.query")):
        what = "both a table and a query" if values.get("jdbc.table") else "neither a table nor a query"
        hint = f"write one of `{prefix}jdbc.table = …` and `{prefix}jdbc.query = SELECT …`"
        problems.error(f"`{url.key}` names a database, and the table `{name}` has {what} of it", hint, url)
    elif (own := _own_options(given, prefix, problems)) is not None:
        options = {_NAMES[setting]: value for setting, value in values.items() if value}
        kind = options["url"].split(":")[1].lower()
        defaults = {"fetchsize": _ROWS_AT_ONCE, **({"driver": _DRIVERS[kind]} if kind in _DRIVERS else {})}
        what = f"the database's table {options['dbtable']}" if "dbtable" in options else "a query of the database"
        line = Source(url.key, url.line, url.file or problems.file)
        return JdbcSource(what, line, tuple({**defaults, **own, **options}.items()))
    return None


def _holds_password(url: str) -> bool:
    return bool(_USER_INFO.search(url)) or any(map(is_secret, _PARAMETER.findall(url)))


def _own_options(given: Mapping[str, Entry], prefix: str, problems: Problems) -> dict[str, str] | None:
    """Spark's further options. Spark does not tell their capital letters apart."""
    found: dict[str, str] = {}
    for setting, entry in given.items():
        if not setting.startswith(OPTION):
            continue
        option = setting.removeprefix(OPTION)
        ours = next((ours for ours, name in _NAMES.items() if name == option.lower()), "")
        if ours:
            problems.error(f"`{entry.key}` has a name of its own", f"write `{prefix}{ours}`", entry)
            return None
        found["fetchsize" if option.lower() == "fetchsize" else option] = entry.value.strip()
    return found
