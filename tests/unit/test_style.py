"""The style card as a test: small functions, and files that fit in a reader's head."""

import ast
from pathlib import Path
from statistics import median

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "sparkmirror"
FILES = sorted(SOURCE.rglob("*.py"))
UNIT_TESTS = sorted(Path(__file__).parent.rglob("*.py"))
LINES_MAX = 400
LARGER = {
    "pipeline/fetch/reader.py": 410,
    "pipeline/produce/transaction.py": 455,
}
"""They may shrink, not grow."""
FUNCTION_LINES_MAX = 60


def lengths_of_functions() -> dict[str, int]:
    found = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found[f"{path.relative_to(SOURCE)}:{node.name}:{node.lineno}"] = (
                    (node.end_lineno or 0) - node.lineno + 1
                )
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_has_few_lines(path: Path) -> None:
    lines = path.read_text().count("\n")
    assert lines <= LARGER.get(str(path.relative_to(SOURCE)), LINES_MAX)


def test_no_function_is_long() -> None:
    assert {name: lines for name, lines in lengths_of_functions().items() if lines > FUNCTION_LINES_MAX} == {}


def test_most_functions_have_less_than_ten_lines() -> None:
    assert median(lengths_of_functions().values()) < 10


def patches_of_time(source: str) -> list[int]:
    """The lines that exchange the module `time`, one of its functions, or one of the machine's clock."""
    walked = ast.walk(ast.parse(source))
    return sorted({node.lineno for node in walked if isinstance(node, ast.stmt | ast.expr) and _exchanges_time(node)})


def _exchanges_time(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign):
        return any(isinstance(one, ast.Attribute) and _is_time(one.value) for one in node.targets)
    if not isinstance(node, ast.Call) or ast.unparse(node.func).rpartition(".")[2] not in _EXCHANGES:
        return False
    return any(_is_time(one) for one in node.args[:1]) or any(_is_text(one, "time") for one in node.args[1:2])


_EXCHANGES = {"setattr", "delattr", "patch", "object"}


def _is_time(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and not _CLOCKS.isdisjoint(node.value.split("."))
    return ast.unparse(node).rpartition(".")[2] in _CLOCKS


_CLOCKS = {"time", "SYSTEM_CLOCK"}


def _is_text(node: ast.expr, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text


def test_no_unit_test_patches_the_time() -> None:
    """What waits or stamps takes a `Clock`: a patched module reaches other tests' threads, and misses other modules."""
    found = {str(path): patches_of_time(path.read_text()) for path in UNIT_TESTS}
    assert len(found) > 100
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    [
        'monkeypatch.setattr("time.sleep", lambda _: None)',
        'monkeypatch.setattr("sparkmirror.planning.starts.time.sleep", slept.append)',
        'monkeypatch.setattr(time, "sleep", lambda _: None)',
        'monkeypatch.setattr(repartition.time, "monotonic", now)',
        'monkeypatch.setattr(mechanisms, "time", clock)',
        'monkeypatch.setattr(SYSTEM_CLOCK, "monotonic", now)',
        'mock.patch("time.time")',
        'mock.patch.object(time, "time")',
        "time.sleep = lambda _: None",
    ],
)
def test_each_way_to_patch_the_time_is_seen(line: str) -> None:
    assert patches_of_time(line) == [1]


@pytest.mark.parametrize("line", ['monkeypatch.setattr(module, "times", 3)', "time.sleep(1)", "clock.now = 3"])
def test_what_patches_no_time_is_let_through(line: str) -> None:
    assert patches_of_time(line) == []
