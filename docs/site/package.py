"""Writes docs/site/package.md: the README as registries of packages show it, where no other file of the repository is.

`python docs/site/package.py > docs/site/package.md`; a test compares. Pictures are left out, and links to files become
the names of the files.
"""

import re
from pathlib import Path

_README = Path(__file__).parents[2] / "README.md"
_PICTURE = re.compile(r"!\[[^]]*\]\((?!https?:)[^)]*\)\n\n?")
_LINK = re.compile(r"\[(?P<text>[^]]*)\]\((?!https?:)(?P<target>[^)\s]+)\)")


def package_page() -> str:
    """The text of the page."""
    text = _LINK.sub(_named, _PICTURE.sub("", _README.read_text()))
    return text.replace("<!-- benchmark -->\n\n", "").replace("<!-- end of benchmark -->\n\n", "")


def _named(link: re.Match[str]) -> str:
    """`docs/web.md`, or the text with the file behind it."""
    file = link["target"].partition("#")[0]
    return f"`{file}`" if link["text"] == file else f"{link['text']} (`{file}`)"


if __name__ == "__main__":
    print(package_page(), end="")
