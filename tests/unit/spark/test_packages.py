"""Archives for executors: sparkmirror and what it requires, whole, once per state of it, and nothing of Spark's own."""

import tarfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest

import sparkmirror
from sparkmirror.spark import packages
from sparkmirror.spark.packages import build_packages, executor_python, import_places, required


def test_requirements_are_followed_and_spark_brings_its_own() -> None:
    found = required()
    assert {"kafka-python", "numpy", "pyarrow", "numba", "llvmlite"} <= set(found)
    assert not {"pyspark", "py4j", "sparkmirror", "pytest", "botocore"} & set(found)


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


def test_archives_are_made_once_and_hold_packages_as_python_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(packages, "required", lambda *_: {"javaproperties": distribution("javaproperties")})
    archives = build_packages()
    made_at = [archive.stat().st_mtime_ns for archive in archives.values()]
    assert len({archive.name for archive in archives.values()}) == 2, "Spark knows them by their file's name"
    names = []
    for archive in archives.values():
        with tarfile.open(archive) as opened:
            names += opened.getnames()
    own = Path(sparkmirror.__file__).parent
    assert {"sparkmirror/py.typed", "sparkmirror/spark/python_daemon.py", "javaproperties/__init__.py"} <= set(names)
    assert {f"sparkmirror/{file.relative_to(own)}" for file in own.rglob("*.py")} <= set(names)
    assert not any(name.startswith(("/", "..")) or "__pycache__" in name for name in names)
    assert [archive.stat().st_mtime_ns for archive in build_packages().values()] == made_at
    monkeypatch.setattr(packages, "required", lambda *_: {})
    itself, others = build_packages().values()
    assert (itself == archives["sparkmirror-itself"], others == archives["sparkmirror-requires"]) == (True, False)


def test_another_python_finds_this_package_where_it_is_imported_from() -> None:
    assert str(Path(sparkmirror.__file__).parents[1]) in import_places()
    assert executor_python().startswith("python3.")
