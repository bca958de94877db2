"""What is shipped: one place says the version, and the package says that it is typed."""

import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from sparkmirror import __version__

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_is_written_in_one_place(project: dict[str, Any]) -> None:
    assert "version" not in project["project"] and project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "sparkmirror.__version__"}
    written = re.compile(rf'"{re.escape(__version__)}"')
    found = [file for file in (ROOT / "src").rglob("*.py") if written.search(file.read_text())]
    assert found == [ROOT / "src/sparkmirror/__init__.py"]


def test_the_lowest_versions_are_those_that_make_lowest_tests(project: dict[str, Any]) -> None:
    asked = [re.match(r"([\w-]+)(?:\[.*\])?[>=]=([\w.]+)", one) for one in project["project"]["dependencies"]]
    lines = (ROOT / "requirements.lowest").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    for bound in asked:
        assert bound is not None, "each dependency has a lower bound"
        assert f"{pinned[bound[1]]}.0".startswith(f"{bound[2]}."), bound[0]
    assert len(pinned) == len(asked)


def test_the_changes_of_this_version_are_reported() -> None:
    assert re.search(rf"^## {re.escape(__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_the_package_is_typed_and_brings_all_that_is_no_python(project: dict[str, Any]) -> None:
    """`tests/scenarios/test_packaging.py` builds the wheel; this finds a kind of file that it would lack."""
    home = Path(str(files("sparkmirror")))
    assert (home / "py.typed").is_file()
    shipped = {
        file for pattern in project["tool"]["setuptools"]["package-data"]["sparkmirror"] for file in home.glob(pattern)
    }
    others = {file for file in home.rglob("*") if file.is_file() and file.suffix not in (".py", ".pyc")}
    assert others == shipped


def test_the_installed_commands_exist(project: dict[str, Any]) -> None:
    for target in project["project"]["scripts"].values():
        module, _, name = target.partition(":")
        assert callable(getattr(__import__(module, fromlist=[name]), name))


@pytest.mark.parametrize("name", ["connect-mirror-maker", "kafka-mirror-maker"])
def test_the_commands_have_the_names_of_kafkas_documentation_too(project: dict[str, Any], name: str) -> None:
    """Kafka's documentation starts them as shell scripts, `connect-mirror-maker.sh FILE`."""
    scripts = project["project"]["scripts"]
    assert scripts[f"{name}.sh"] == scripts[name]
