"""The archive for executors: what sparkmirror requires, whole, once per state of it, and nothing of Spark's own."""

import tarfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest

import sparkmirror
from sparkmirror.engine import packages
from sparkmirror.engine.packages import build_packages, executor_python, import_places, required


def test_requirements_are_followed_and_spark_brings_its_own() -> None:
    found = required()
    assert {"kafka-python", "numpy", "pyarrow", "numba", "llvmlite"} <= set(found), "llvmlite is numba's"
    assert not {"pyspark", "py4j", "sparkmirror", "pytest"} & set(found)


def test_of_extras_only_those_that_are_asked_for_are_followed() -> None:
    class Made(Distribution):
        @property
        def requires(self) -> list[str]:
            return ["a[x,y]>=1", 'b; extra == "x"', 'c; extra == "z"', 'd; python_version > "3"', "E_f"]

        def read_text(self, filename: str) -> None:
            return None

        def locate_file(self, path: object) -> Path:
            return Path(str(path))

    without = frozenset[str]()
    found = [("a", frozenset({"x", "y"})), ("b", without), ("d", without), ("e-f", without)]
    assert list(packages._requirements(Made(), frozenset({"x"}))) == found


def test_the_archive_is_made_once_and_holds_packages_as_python_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(packages, "required", lambda: {"javaproperties": distribution("javaproperties")})
    archive = build_packages()
    made_at = archive.stat().st_mtime_ns
    with tarfile.open(archive) as opened:
        names = set(opened.getnames())
    own = Path(sparkmirror.__file__).parent
    assert {"sparkmirror/py.typed", "sparkmirror/engine/python_daemon.py", "javaproperties/__init__.py"} <= names
    assert {f"sparkmirror/{file.relative_to(own)}" for file in own.rglob("*.py")} <= names
    assert not any(name.startswith(("/", "..")) or "__pycache__" in name for name in names)
    assert build_packages().stat().st_mtime_ns == made_at
    monkeypatch.setattr(packages, "required", dict)
    assert build_packages() != archive, "other packages, another archive"


def test_another_python_finds_this_package_where_it_is_imported_from() -> None:
    assert str(Path(sparkmirror.__file__).parents[1]) in import_places()
    assert executor_python().startswith("python3.")
