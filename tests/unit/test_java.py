"""Finding Java: each way it can be missing is a sentence with a hint."""

from pathlib import Path

import pytest

from sparkmirror.errors import EnvironmentProblem
from sparkmirror.java import find_java, java_release


def fake_java(home: Path, says: str, status: int = 0) -> Path:
    """A `java` below `home`/bin that prints `says` to standard error, as `java -version` does."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {status}\n")
    java.chmod(0o755)
    return java


def test_no_java_anywhere_says_so_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="No Java was found") as caught:
        find_java({"PATH": str(tmp_path)})
    assert "JAVA_HOME" in caught.value.hint
    assert caught.value.exit_status == 3


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    wanted = fake_java(tmp_path / "home", 'openjdk version "21.0.2" 2024-01-16')
    other = fake_java(tmp_path / "other", 'openjdk version "17.0.1"')
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(other.parent)}) == wanted
    assert find_java({"PATH": str(other.parent)}) == other


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match=f"JAVA_HOME is {tmp_path}, but there is no"):
        find_java({"JAVA_HOME": str(tmp_path)})


@pytest.mark.parametrize(("says", "version"), [('java version "1.8.0_392"', 8), ('openjdk version "11.0.21"', 11)])
def test_an_old_java_is_refused_with_its_version(tmp_path: Path, says: str, version: int) -> None:
    fake_java(tmp_path, says)
    with pytest.raises(EnvironmentProblem, match=f"is Java {version}, but Java 17 or newer is needed"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_a_java_that_fails_is_quoted(tmp_path: Path) -> None:
    fake_java(tmp_path, "Could not create the Java Virtual Machine", status=1)
    with pytest.raises(EnvironmentProblem, match="Could not create the Java Virtual Machine"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_a_java_whose_files_name_its_release_is_not_run(tmp_path: Path) -> None:
    java = fake_java(tmp_path, "this one does not run", status=1)
    (tmp_path / "release").write_text('IMPLEMENTOR="Debian"\nJAVA_VERSION="17.0.15"\n')
    assert find_java({"JAVA_HOME": str(tmp_path)}) == java
    with pytest.raises(EnvironmentProblem, match="this one does not run"):
        java_release({"JAVA_HOME": str(tmp_path)})


def test_an_old_java_is_refused_by_its_files(tmp_path: Path) -> None:
    fake_java(tmp_path, "this one does not run", status=1)
    (tmp_path / "release").write_text('JAVA_VERSION="1.8.0_392"\n')
    with pytest.raises(EnvironmentProblem, match="is Java 8, but Java 17 or newer is needed"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_a_release_file_without_a_version_decides_nothing(tmp_path: Path) -> None:
    fake_java(tmp_path, 'openjdk version "11.0.21"')
    (tmp_path / "release").write_text('IMPLEMENTOR="Debian"\n')
    with pytest.raises(EnvironmentProblem, match="is Java 11"):
        find_java({"JAVA_HOME": str(tmp_path)})
