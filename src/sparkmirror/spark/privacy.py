"""Keeps a machine's other users out of Spark's processes: who may open its sockets and files. Called by
`spark.session`.

Spark's Python daemon runs what it is sent, and asks nobody who he is where its socket is a Unix domain socket: the
permissions of the file are all there is.
"""

import atexit
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PRIVATE_UMASK: Final = 0o077
_PATH_BYTES_MAX: Final = 107
_NAME_BYTES: Final = 43
"""Of Spark's sockets: `/.`, a UUID, `.sock`."""


@contextmanager
def private_files() -> Iterator[None]:
    """What this process, or one that it starts meanwhile, creates is its user's alone; children keep to that."""
    before = os.umask(PRIVATE_UMASK)
    try:
        yield
    finally:
        os.umask(before)


def socket_directory(scratch: Path) -> Path:
    """A directory that only this user may enter, with a path that leaves room for a socket's name.

    Below `scratch` where that is short enough, else below /tmp, until this process ends. Raises OSError.
    """
    wanted = scratch / "sockets"
    if len(os.fsencode(wanted)) + _NAME_BYTES > _PATH_BYTES_MAX:
        short = tempfile.TemporaryDirectory(prefix="sparkmirror-", dir="/tmp")
        atexit.register(short.cleanup)
        return Path(short.name)
    wanted.mkdir(mode=0o700, exist_ok=True)
    wanted.chmod(0o700)
    return wanted
