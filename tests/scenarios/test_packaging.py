"""The wheel has all that the package needs, and what it installs works where there is no repository."""

import json
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from tests.installed import install

from sparkmirror import __version__

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as pip builds it, of the source distribution of a copy: nothing is left in the repository."""
    directory = tmp_path_factory.mktemp("wheel")
    tree = directory / "tree"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, tree], check=True)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*build, "--wheel-dir", directory, source_distribution(tree, directory)], check=True)
    (found,) = directory.glob("*.whl")
    return found


def source_distribution(tree: Path, directory: Path) -> Path:
    """Built by the back end that pyproject.toml asks for, in an environment of its own."""
    (asked,) = tomllib.loads((tree / "pyproject.toml").read_text())["build-system"]["requires"]
    venv.create(directory / "back-end", with_pip=True)
    python = str(directory / "back-end/bin/python")
    pip = [python, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, asked], check=True)
    make = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
    subprocess.run([python, "-c", make, directory], cwd=tree, check=True, capture_output=True)
    (found,) = directory.glob("*.tar.gz")
    return found


@pytest.mark.long
def test_the_wheel_holds_every_file_of_the_package_and_its_version(wheel: Path) -> None:
    assert wheel.name == f"sparkmirror-{__version__}-py3-none-any.whl"
    tracked = subprocess.run(
        ["git", "ls-files", "src/sparkmirror"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(f"sparkmirror-{__version__}.dist-info/METADATA").decode()
    assert "Description-Content-Type: text/markdown" in metadata and "Kafka cluster-to-cluster" in metadata
    assert not re.search(r"\]\((?!https?:)", metadata), "a link that leads nowhere outside of the repository"
    assert {str(Path(name).relative_to("src")) for name in tracked} <= names
    assert "sparkmirror/py.typed" in names
    assert not [name for name in names if name.startswith(("tests", "bench"))]


@pytest.mark.long
def test_what_the_wheel_installs_works_without_the_repository(wheel: Path, tmp_path: Path) -> None:
    commands = install(wheel, tmp_path / "env")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}

    def run(*arguments: str) -> str:
        command = [str(commands / "sparkmirror"), *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True).stdout

    assert json.loads(run("version", "--format", "json"))["sparkmirror"] == __version__
    assert "two Kafka brokers" in run("demo", "--help")
    for script in ("connect-mirror-maker.sh", "kafka-mirror-maker.sh"):
        assert (commands / script).is_file()
    where = [str(commands / "python"), "-c", "import sparkmirror; print(sparkmirror.__file__)"]
    said = subprocess.run(where, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True).stdout
    assert str(tmp_path / "env") in said, "the installed one, not the repository's"
