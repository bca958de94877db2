"""Which former version the rolling upgrade is tested with: the last release whose program is another one."""

import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
OLDEST: Final = "ae68a9e"
"""The first commit that stores what this version stores: it stands for a release before the first one."""


def former_version(root: Path = ROOT, oldest: str = OLDEST) -> str:
    """The newest tag below this commit, or `oldest`, that has another `src` than the working tree: a tag on this very
    commit is this version, and would be compared with itself. Raises LookupError where none has."""
    tags = _git(root, "tag", "--list", "v*", "--merged", "HEAD", "--sort=-version:refname").stdout.split()
    for version in (*tags, oldest):
        if _git(root, "diff", "--quiet", version, "--", "src").returncode:
            return version
    raise LookupError(f"{', '.join(tags)} and {oldest} have the program of this tree: there is nothing to upgrade from")


def _git(root: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
