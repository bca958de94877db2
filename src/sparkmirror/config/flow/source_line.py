"""Where in a file a step of a flow stands, and how steps name Python functions. Used by all readers of steps."""

import re
from dataclasses import dataclass
from typing import Final

FUNCTION_NAME: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""`module:function`."""


@dataclass(frozen=True, slots=True)
class Source:
    """The line that an expression comes from."""

    key: str
    line: int
    file: str
