"""The wheel has all that the package needs, and what it installs works where there is no repository: with the lowest
versions of packages that pyproject.toml allows, which `requirements.lowest` locks."""

import json
import re
import subprocess
import sys
import tomllib
import urllib.request
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import lowest
from tests.oracle import Client, assert_same, count_records, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import StartMirror, flow_file

from sparkmirror import __version__

ROOT = lowest.ROOT
RECORDS = 500


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built of the source distribution of a copy, by the back end that pyproject.toml asks for, in an environment of
    its own: nothing is left in the repository."""
    directory = tmp_path_factory.mktemp("wheel")
    tree, home = directory / "tree", directory / "back-end"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, tree], check=True)
    venv.create(home)
    pip = [sys.executable, "-I", "-m", "pip", "--python", str(home / "bin/python")]
    quiet = ["--quiet", "--disable-pip-version-check"]
    (asked,) = tomllib.loads((tree / "pyproject.toml").read_text())["build-system"]["requires"]
    subprocess.run([*pip, "install", *quiet, asked, "wheel"], check=True)
    make = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
    subprocess.run([home / "bin/python", "-c", make, directory], cwd=tree, check=True, capture_output=True)
    (source,) = directory.glob("*.tar.gz")
    assert source.name == f"sparkmirror-{__version__}.tar.gz"
    build = [*pip, "wheel", *quiet, "--no-deps", "--no-build-isolation", "--wheel-dir", str(directory), str(source)]
    subprocess.run(build, check=True)
    (found,) = directory.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def commands(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the commands of an environment that has the wheel and the lowest versions."""
    if sys.version_info > (3, 13):
        pytest.skip("numpy 1.26 and numba 0.60, the lowest versions, have no wheels for this Python")
    return lowest.make(wheel, tmp_path_factory.mktemp("installed") / "env")


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


def test_what_the_wheel_installs_works_without_the_repository(commands: Path, tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}

    def run(program: str, *arguments: str) -> str:
        command = [str(commands / program), *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True).stdout

    assert json.loads(run("sparkmirror", "version", "--format", "json"))["sparkmirror"] == __version__
    assert "two Kafka brokers" in run("sparkmirror", "demo", "--help")
    for script in ("connect-mirror-maker.sh", "kafka-mirror-maker.sh"):
        assert (commands / script).is_file()
    where = run("python", "-c", "import sparkmirror; print(sparkmirror.__file__)")
    assert str(commands.parent) in where, "the installed one, not the repository's"
    ask = "import importlib.metadata as m, sys; print(*(f'{name}=={m.version(name)}' for name in sys.argv[1:]))"
    names = lowest.bounds()
    found = run("python", "-c", ask, *names).split()
    assert found == [entry.split()[0] for entry in map(lowest.locked().__getitem__, names)]


def test_what_the_wheel_installs_mirrors_and_shows_its_page(
    commands: Path, source: Client, target: Client, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    topic, alias = unique("orders"), unique("east")
    make_topics(source, {topic: 1})
    write(source, topic, numbered(0, RECORDS), compression_type="zstd")
    text = flow_file(source, target, alias=alias, topics=topic, lines=["status.listen = 127.0.0.1:0"])
    (file := commands.parent / f"{alias}.properties").write_text(text)
    mirror = start_mirror(text, program=[str(commands / "sparkmirror"), "run", str(file)])
    mirror.wait_until(lambda: count_records(target, f"{alias}.{topic}") == RECORDS, "all is mirrored")
    assert_same(read_topic(source, topic), read_topic(target, f"{alias}.{topic}"), topic)
    (page,) = re.findall(r"status page is at (http://\S+/)", mirror.errors)

    def says(path: str, text: str) -> bool:
        with urllib.request.urlopen(f"{page}{path}", timeout=60) as answer:
            return text in answer.read().decode()

    # The page reads the flow's status from the target by itself, after the records on a busy machine.
    mirror.wait_until(lambda: says("status.txt", f"{alias}->backup"), "the page shows the flow")
    assert says("metrics", "sparkmirror_")
    mirror.stop()


@pytest.mark.long
def test_tests_of_what_uses_a_package_most_pass_with_its_lowest_version(commands: Path) -> None:
    """Of the wheel, too: tests come from the repository, and the package from where pip has put it."""
    command = [
        str(commands / "python"),
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "not long",
        *lowest.tests(),
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-2000:]
