"""What texts of others look like where people read them: no control characters, no log-ins of URLs; pure.

Names and messages come from brokers, topics and files, and are anybody's: a terminal would obey some of them.
"""

import json
import re
from typing import Any

HIDDEN = "[hidden]"
_ENCODED_CONTROLS = re.compile(
    r"(?<!\\)((?:\\\\)*)\\(u(?:00[01][0-9a-f]|007f|00[89][0-9a-f]|061c|200[b-f]|202[a-e]|206[0-9a-f]|feff))"
)
"""As JSON in ASCII has them: control characters, and what makes text run backwards or stand nowhere."""
_USER_INFO = re.compile(r"(?<=://)[^\s/?#\"'<>]*@")


def show_text(text: str) -> str:
    """In one line: line ends, escape sequences and the like as Python writes them, `\\x1b[2J`."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


def show_lines(text: str) -> str:
    """As `show_text`, but lines stay lines."""
    return "\n".join(map(show_text, text.split("\n")))


def dump_shown(value: Any) -> str:
    """`value` as JSON for a page: control characters in it are read as `\\u001b`, and not obeyed; line ends stay."""
    text = json.dumps(value, separators=(",", ":"))
    return _ENCODED_CONTROLS.sub(r"\1\\\\\2", text) if "\\u" in text else text


def hide_user_info(text: str) -> str:
    """`text` with `[hidden]` for the name and password of each URL: `http://[hidden]@proxy:3128`."""
    return _USER_INFO.sub(f"{HIDDEN}@", text) if "@" in text else text
