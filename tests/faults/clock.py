"""Steps the wall clock of a mirror's processes, and of no other: a library of ours (`clock.c`), preloaded."""

import shutil
import struct
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock.c")


class SteppedClock:
    """Right until `step`. Raises OSError without a C compiler."""

    def __init__(self, directory: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise OSError("there is no C compiler (cc), with which the stepped clock is made")
        directory.mkdir(exist_ok=True)
        self._library = directory / "clock.so"
        self._file = directory / "step"
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(self._library), str(_SOURCE), "-ldl"]
        subprocess.run(command, check=True, capture_output=True)
        self.step(0)

    @property
    def environment(self) -> dict[str, str]:
        """Of the processes whose clock is to be stepped."""
        return {"LD_PRELOAD": str(self._library), "SPARKMIRROR_CLOCK_STEP": str(self._file)}

    def step(self, seconds: int) -> None:
        """So far from the right time, from now on."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("q", seconds))
