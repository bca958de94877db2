"""Writes deploy/container/requirements.lock: of requirements.lock what a mirror needs to run, not what tests need.

`python deploy/container/lock.py` prints it; `make lock` writes it. Run by the Python of `.venv`, where all of it is.
"""

import re
import tomllib
from pathlib import Path

from sparkmirror.spark.packages import required

_ROOT = Path(__file__).parents[2]
_LOCK = _ROOT / "requirements.lock"
_BESIDE = {"py4j"}
_HEAD = "# Written by `make lock` from requirements.lock: what runs a mirror, for container images and machines."


def runtime_lock() -> str:
    """The text of the file."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["web"]]
    names = {re.split(r"[^\w.-]", one)[0] for one in asked}
    wanted = {*required(extras=frozenset({"web"})), *_BESIDE, *names}
    blocks = _LOCK.read_text().replace(" \\\n", "\0").splitlines()
    kept = [block for block in blocks if block.partition("==")[0].lower().replace("_", "-") in wanted]
    missing = wanted - {block.partition("==")[0].lower().replace("_", "-") for block in kept}
    if missing:
        raise SystemExit(f"requirements.lock lacks {', '.join(sorted(missing))}: run `make lock` and `make setup`")
    return "\n".join([_HEAD, *kept]).replace("\0", " \\\n") + "\n"


if __name__ == "__main__":
    print(runtime_lock(), end="")
