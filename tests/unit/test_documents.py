"""README.md and docs/: links lead somewhere, each page can be found, commands are understood, figures were measured."""

import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import summary

from sparkmirror.cli.main import build_parser, parse

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
_SHOWN = re.compile(r" *(?:\$ )?(?P<command>sparkmirror [a-z].*)")
_INLINE = re.compile(r"`(?P<command>sparkmirror [a-z ]+ FILE(?: [-a-z]+)*)`")
_HEADING = re.compile(r"^#+ +(?P<title>.+?)\s*$", re.MULTILINE)


def links(document: Path) -> Iterator[tuple[Path, str]]:
    """The file and the anchor of each link that leads into the repository."""
    for match in _LINK.finditer(_FENCE.sub("", document.read_text())):
        path, _, anchor = match["target"].partition("#")
        if "://" not in match["target"] and not path.startswith("mailto:"):
            yield (document.parent / path).resolve() if path else document, anchor


def anchors(document: Path) -> set[str]:
    """As GitHub makes them of headings."""
    titles = [match["title"] for match in _HEADING.finditer(_FENCE.sub("", document.read_text()))]
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: one.name)
def test_each_link_leads_somewhere(document: Path) -> None:
    broken = [
        f"{target.relative_to(ROOT)}#{anchor}"
        for target, anchor in links(document)
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target))
    ]
    assert broken == []


def test_the_site_is_not_built_with_a_link_to_a_page_that_is_not_there(tmp_path: Path) -> None:
    """mkdocs looks at links between pages; those to other files are taken out before it sees them."""
    site = runpy.run_path(str(ROOT / "docs" / "site" / "prepare.py"))
    (tmp_path / "docs").mkdir()
    (page := tmp_path / "docs" / "one.md").write_text("[code](../Makefile), [two](two.md#part)")
    for name in ("README.md", "Makefile", "docs/two.md"):
        (tmp_path / name).touch()
    names = site["pages"](tmp_path)
    assert site["rewritten"](page, names, tmp_path) == "code, [two](two.md#part)"
    (tmp_path / "docs" / "two.md").unlink()
    with pytest.raises(SystemExit, match=re.escape("docs/one.md: the link to two.md#part leads nowhere")):
        site["rewritten"](page, names, tmp_path)


def test_each_page_is_in_the_index_and_the_index_in_the_readme() -> None:
    listed = {target for target, _ in links(ROOT / "docs" / "README.md")}
    pages = set((ROOT / "docs").glob("*.md")) - {ROOT / "docs" / "README.md"}
    assert sorted(page.name for page in pages - listed) == []
    assert (ROOT / "docs" / "README.md") in {target for target, _ in links(ROOT / "README.md")}


def shown_commands(document: Path) -> Iterator[str]:
    """Lines of its blocks, fenced or indented, that run the program, without the prompt, a comment behind them, and a
    redirection; and whole commands inside sentences, which say FILE."""
    text = document.read_text()
    for line in text.replace("\\\n", " ").splitlines():
        if shown := _SHOWN.match(line):
            command = re.sub(r"\s#.*| [|>&].*", "", shown["command"])
            if "…" not in command:
                yield " ".join(command.split())
    yield from (" ".join(inline["command"].split()) for inline in _INLINE.finditer(text))


COMMANDS = [
    pytest.param(command, id=f"{document.name}: {command}")
    for document in DOCUMENTS
    for command in shown_commands(document)
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_a_page_shows_is_understood(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the files of connectors that it names, by which it is recognised that several stand for one."""
    words = shlex.split(command)[1:]
    for name in (word for word in words if word.endswith(".json")):
        tmp_path.joinpath(name).write_text(
            '{"connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector"}'
        )
    monkeypatch.chdir(tmp_path)
    assert parse(build_parser(), words).command is not None


def test_the_page_of_the_package_is_the_readme_without_what_leads_into_the_repository() -> None:
    page = ROOT / "docs/site/package.md"
    writer = page.with_suffix(".py")
    fresh = subprocess.run([sys.executable, writer], check=True, capture_output=True, text=True).stdout
    assert page.read_text() == fresh, "write it again: python docs/site/package.py > docs/site/package.md"
    assert list(links(page)) == []


def test_the_figures_of_the_readme_were_measured() -> None:
    page = summary.PAGE.read_text()
    hint = "write them again: python -m bench.summary"
    assert len(summary.copies(page)) == len(summary._COPIES) and summary.caught_up(page), "a run lacks a row"
    for document in (summary.README, summary.PAGE):
        assert summary.with_summary(document.read_text(), page) == document.read_text(), hint
    assert summary.draw(summary.copies(page)) == summary.PLOT.read_text(), hint
    assert summary.draw_caught_up(summary.caught_up(page)) == summary.CAUGHT_UP_PLOT.read_text(), hint
