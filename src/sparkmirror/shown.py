"""What texts of others look like where people read them: no control characters, no log-ins of URLs; pure.

Names and messages come from brokers, topics and files, and are anybody's: a terminal would obey some of them.
"""

import re

HIDDEN = "[hidden]"
_USER_INFO = re.compile(r"(?<=://)[^\s/?#\"'<>]*@")


def show_text(text: str) -> str:
    """In one line: line ends, escape sequences and the like as Python writes them, `\\x1b[2J`."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


def show_lines(text: str) -> str:
    """As `show_text`, but lines stay lines."""
    return "\n".join(map(show_text, text.split("\n")))


def hide_user_info(text: str) -> str:
    """`text` with `[hidden]` for the name and password of each URL: `http://[hidden]@proxy:3128`."""
    return _USER_INFO.sub(f"{HIDDEN}@", text) if "@" in text else text
