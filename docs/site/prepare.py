"""Puts the pages of docs/ and of the root beside each other for mkdocs, with a navigation by docs/README.md.

Called by `make docs` with the directory to write into. Links to files that are no pages lose their target: the site
has none of them. A link to a file that is not there ends the build; anchors are left to mkdocs.
"""

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^]]*)\]\((?P<target>[^)\s]+)\)")
_SECTION = re.compile(r"^## (?P<title>.+)$")
_START = "index.md"


def pages(root: Path = ROOT) -> dict[Path, str]:
    """Each page by its file, with its name on the site; the root's README is the start."""
    found = {page: page.name for page in sorted((root / "docs").glob("*.md"))}
    found |= {page: page.name for page in sorted(root.glob("*.md"))}
    return found | {root / "README.md": _START, root / "docs" / "README.md": "documentation.md"}


def rewritten(page: Path, names: dict[Path, str], root: Path = ROOT) -> str:
    """The page's text with links as the site has them. Raises SystemExit for a link to a file that is not there."""

    def link(match: re.Match[str]) -> str:
        path, anchor_mark, anchor = match["target"].partition("#")
        if "://" in match["target"] or not path:
            return match.group()
        target = (page.parent / path).resolve()
        if not target.exists():
            raise SystemExit(f"{page.relative_to(root)}: the link to {match['target']} leads nowhere")
        if match["picture"]:
            return f"![{match['text']}](pictures/{target.name})"
        return f"[{match['text']}]({names[target]}{anchor_mark}{anchor})" if target in names else match["text"]

    return _LINK.sub(link, page.read_text())


def navigation(names: dict[Path, str]) -> Iterator[str]:
    """Lines of mkdocs' `nav`: the sections of docs/README.md and the pages that each lists, once."""
    yield from ("nav:", f"  - Start: {_START}", "  - All pages: documentation.md")
    left = set(names.values()) - {_START, "documentation.md"}
    for line in (ROOT / "docs" / "README.md").read_text().splitlines():
        if section := _SECTION.match(line):
            yield f"  - {section['title']}:"
        for match in _LINK.finditer(line if line.startswith("|") else ""):
            name = names.get((ROOT / "docs" / match["target"]).resolve(), "")
            if name in left:
                left.remove(name)
                yield f"    - {name}"
    yield "  - Contribute:"
    yield from (f"    - {name}" for name in sorted(left))


def main(directory: Path) -> None:
    """Writes pages, pictures and mkdocs.yml below `directory`."""
    shutil.rmtree(directory, ignore_errors=True)
    names = pages()
    (directory / "pages").mkdir(parents=True)
    shutil.copytree(ROOT / "docs" / "pictures", directory / "pages" / "pictures")
    for page, name in names.items():
        (directory / "pages" / name).write_text(rewritten(page, names))
    settings = (ROOT / "docs" / "site" / "mkdocs.yml").read_text()
    settings = settings.replace("../../.cache/site/", "")
    (directory / "mkdocs.yml").write_text(settings + "\n".join(navigation(names)) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
