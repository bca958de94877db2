"""Programs of others that tests run: `python -m tests.programs` brings those that this machine lacks into `.cache`.

With `--check` it brings nothing, and ends with status 1 where one is missing.

They are Debian's own packages, downloaded by apt, which checks each against the signed index of its archive, and
unpacked beside the clone: no root is needed, and nothing of the machine changes. Where apt is not there, or its archive
has a program not, the set-up says so and goes on; `program` then fails the tests that need it, or skips them with
`ALLOW_SKIPS=1`.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

CACHE: Final = Path(__file__).parents[1] / ".cache" / "programs"
BIN: Final = CACHE / "bin"
MISSING: Final = "is not installed on this machine"
PACKAGES: Final[Mapping[str, str]] = {
    "chromium": "usr/lib/chromium/chromium",
    "prometheus": "usr/bin/prometheus",
    "promtool": "usr/bin/promtool",
    "zsh": "bin/zsh",
    "fish": "usr/bin/fish",
    "tcsh": "bin/tcsh",
}
"""Each program with its place in what its package unpacks to. All packages but promtool's have the program's name."""
_HINT: Final = (
    "`make setup` brings it where apt has an archive to ask; else install it, or set ALLOW_SKIPS=1 to skip its tests"
)
_SECONDS_MAX: Final = 600
_LIBRARIES: Final = ("usr/lib/*-linux-gnu", "lib/*-linux-gnu", "usr/lib/*-linux-gnu/pulseaudio")
_SETTINGS: Final = """\
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
Dir::State::Lists "{place}/lists";
Dir::Cache "{place}/cache";
Dir::Log "{place}";
Acquire::Languages "none";
Acquire::Retries "3";
Debug::NoLocking "true";
"""


class CannotBring(Exception):
    """Why the set-up cannot have the programs, as a sentence."""


def use() -> None:
    """Programs that were brought are found by their names, before the machine's own."""
    os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


def program(*names: str) -> str:
    """The path of the first of them that is there. Without any the test fails; with ALLOW_SKIPS=1 it is skipped."""
    for name in names:
        if found := shutil.which(name):
            return found
    sentence = f"{names[0]} {MISSING}"
    if os.environ.get("ALLOW_SKIPS") == "1":
        pytest.skip(sentence)
    pytest.fail(f"{sentence}: {_HINT}", pytrace=False)


def missing() -> list[str]:
    """Those that neither the machine nor an earlier set-up has."""
    return [name for name in PACKAGES if shutil.which(name) is None]


def bring(names: Sequence[str]) -> None:
    """Unpack the packages of these programs, with the libraries that the machine lacks. Raises CannotBring."""
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            raise CannotBring(f"this machine has no {tool}")
    CACHE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE.parent, prefix="programs-") as made:
        place = Path(made)
        for folder in ("lists/partial", "cache/archives/partial", "packages", "root", "bin"):
            (place / folder).mkdir(parents=True)
        (place / "apt.conf").write_text(_SETTINGS.format(place=place))
        _download(place, sorted({"prometheus" if name == "promtool" else name for name in names}))
        for package in sorted((place / "packages").glob("*.deb")):
            _run(["dpkg", "-x", str(package), str(place / "root")])
        for name in names:
            _wrap(place, name)
        CACHE.mkdir(exist_ok=True)
        for folder in ("root", "bin"):
            if (CACHE / folder).exists():
                shutil.copytree(place / folder, CACHE / folder, symlinks=True, dirs_exist_ok=True)
            else:
                (place / folder).rename(CACHE / folder)


def _download(place: Path, packages: Sequence[str]) -> None:
    """Of the packages and all that they need beside what is installed here."""
    apt = ["apt-get", "-q", "-c", str(place / "apt.conf")]
    _run([*apt, "update"])
    wanted = list(packages)
    while True:
        plan = subprocess.run(
            [*apt, "install", "-s", "--no-install-recommends", *wanted], capture_output=True, text=True, timeout=120
        )
        if plan.returncode == 0:
            break
        unknown = [one for one in wanted if f"package {one}" in plan.stderr]
        if not unknown:
            raise CannotBring(_last_line(plan.stderr))
        print(f"apt's archives have no {', '.join(unknown)}", file=sys.stderr)
        wanted = [one for one in wanted if one not in unknown]
    needed = [line.split()[1] for line in plan.stdout.splitlines() if line.startswith("Inst ")]
    if needed:
        _run([*apt, "download", *needed], place / "packages")


def _wrap(place: Path, name: str) -> None:
    """A script in `bin` that gives the program the libraries that came with it."""
    inside = PACKAGES[name]
    if not (place / "root" / inside).exists():
        return
    libraries = [
        f"{CACHE / 'root' / found.relative_to(place / 'root')}"
        for pattern in _LIBRARIES
        for found in sorted((place / "root").glob(pattern))
    ]
    script = place / "bin" / name
    paths = ":".join(libraries)
    script.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{paths}" exec "{CACHE / "root" / inside}" "$@"\n')
    script.chmod(0o755)


def _run(command: Sequence[str], directory: Path | None = None) -> None:
    try:
        ended = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        raise CannotBring(f"`{command[0]}` did not end in {_SECONDS_MAX} s") from None
    if ended.returncode:
        raise CannotBring(f"`{' '.join(command[:2])}` ended with status {ended.returncode}: {_last_line(ended.stderr)}")


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2] or "it said nothing"


def main() -> int:
    """Brings what is missing; what still is, is the tests' to tell. With `--check` it only says, by status 1."""
    use()
    if not (names := missing()):
        return 0
    if "--check" in sys.argv[1:]:
        print(f"missing: {', '.join(names)}; their tests are skipped", file=sys.stderr)
        return 1
    print(f"bringing {', '.join(names)} into {CACHE}", file=sys.stderr)
    try:
        bring(names)
    except (CannotBring, OSError) as problem:
        print(f"programs for tests could not be brought: {problem}", file=sys.stderr)
    if left := missing():
        print(f"tests that need {', '.join(left)} fail; set ALLOW_SKIPS=1 to skip them", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
