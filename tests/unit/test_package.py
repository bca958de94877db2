"""What is shipped: one place says the version, and the package says that it is typed."""

import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from tests import lowest

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


def test_the_second_lock_has_the_lowest_versions_that_are_allowed() -> None:
    """`tests/scenarios/test_packaging.py` runs with them."""
    pinned = {name: lowest.version_of(entry) for name, entry in lowest.locked().items()}
    for name, version in lowest.bounds().items():
        assert re.fullmatch(rf"{re.escape(version)}(\.0)*", pinned[name]), name


def test_continuous_integration_tests_each_package_in_its_lowest_version() -> None:
    """Of PySpark one version only is allowed, and the clients of the demo have no unit tests."""
    assert set(lowest.bounds()) == {*lowest.TESTS, "pyspark", "confluent-kafka"}
    assert [place for place in lowest.tests() if not (ROOT / place).exists()] == []


def test_extras_bring_what_few_need(project: dict[str, Any]) -> None:
    extras = project["project"]["optional-dependencies"]
    assert {"web", "demo", "msk", "kerberos", "otel", "avro"} <= set(extras)
    assert set(extras["web"]) < set(extras["demo"]), "the demo shows the page"


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
