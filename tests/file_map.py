"""The file map of DESIGN.md: packages by their docstrings, modules by their first sentences.

`python -m tests.file_map` writes it.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sparkmirror"
DESIGN = ROOT / "DESIGN.md"
_SECTION = re.compile(r"(?<=^## File map\n\n).*?(?=^## )", re.MULTILINE | re.DOTALL)
_INTRODUCTION = "Written by `python -m tests.file_map` from the docstrings of packages and modules; a test compares.\n"


def file_map() -> str:
    """The section as it is to stand in DESIGN.md: a table for each package, in the order of their names."""
    lines = [_INTRODUCTION]
    for package in sorted(path.parent for path in SOURCE.rglob("__init__.py")):
        rows = list(_rows(package))
        if rows:
            title = str(package.relative_to(SOURCE.parent))
            lines += [f"**`{title}/`**: {_paragraph(package / '__init__.py')}\n"]
            lines += ["| file | role |", "|---|---|", *rows, ""]
    return "\n".join(lines) + "\n"


def written() -> str:
    """The section as it stands in DESIGN.md. Raises `LookupError` when there is none."""
    found = _SECTION.search(DESIGN.read_text())
    if found is None:
        raise LookupError("DESIGN.md has no section 'File map'")
    return found.group()


def _rows(package: Path) -> Iterator[str]:
    for path in sorted(package.glob("*.py")):
        if path.name != "__init__.py":
            yield f"| `{path.relative_to(SOURCE)}` | {_first_sentence(path).rstrip('.').replace('|', ', ')} |"


def _paragraph(path: Path) -> str:
    return " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split())


def _first_sentence(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text()))
    if not text:
        raise LookupError(f"{path.relative_to(ROOT)} has no docstring")
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[a-z`)]\.) (?=[A-Z`])", paragraph)[0]


if __name__ == "__main__":
    section = file_map()
    DESIGN.write_text(_SECTION.sub(lambda _: section, DESIGN.read_text()))
