"""Groups the lines of a file that say several things of what has a name: `<prefix><name>.<setting>`. Used by
`config.flow.lookup_tables` and `config.flow.schema_registries`.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

from sparkmirror.config.formats.properties import Entry
from sparkmirror.config.reading import Problems

_NAME: Final = re.compile(r"[A-Za-z]\w*", re.ASCII)


def group_by_name(
    entries: Mapping[str, Entry],
    prefix: str,
    settings: Collection[str],
    kind: str,
    problems: Problems,
    families: tuple[str, ...] = (),
) -> dict[str, dict[str, Entry]]:
    """The settings of each name, in the order of the file; what is none of `settings`, and begins with none of
    `families`, is a problem. `kind` is what the names are of, in a sentence."""
    named: dict[str, dict[str, Entry]] = {}
    for key, entry in entries.items():
        if key.startswith(prefix):
            name, _, setting = key.removeprefix(prefix).partition(".")
            if _NAME.fullmatch(name) and _is_known(setting, settings, families):
                named.setdefault(name, {})[setting] = entry
            else:
                known = ", ".join([*settings, *(f"{one}…" for one in families)])
                hint = f"after {prefix}<name>. come {known}; a name has letters, digits and `_`"
                problems.error(f"`{entry.key}` is no setting of a {kind}", hint, entry)
    return named


def _is_known(setting: str, settings: Collection[str], families: tuple[str, ...]) -> bool:
    return setting in settings or any(setting.startswith(one) and setting != one for one in families)
