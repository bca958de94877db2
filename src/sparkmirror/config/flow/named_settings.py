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
    entries: Mapping[str, Entry], prefix: str, settings: Collection[str], kind: str, problems: Problems
) -> dict[str, dict[str, Entry]]:
    """The settings of each name, in the order of the file; what is none of `settings` is a problem. `kind` is what
    the names are of, in a sentence."""
    named: dict[str, dict[str, Entry]] = {}
    for key, entry in entries.items():
        if key.startswith(prefix):
            name, _, setting = key.removeprefix(prefix).partition(".")
            if _NAME.fullmatch(name) and setting in settings:
                named.setdefault(name, {})[setting] = entry
            else:
                hint = f"after {prefix}<name>. come {', '.join(settings)}; a name has letters, digits and `_`"
                problems.error(f"`{entry.key}` is no setting of a {kind}", hint, entry)
    return named
