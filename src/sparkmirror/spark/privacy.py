"""Keeps a machine's other users out of the sockets and files of Spark's processes. Called by `spark.session`.

Spark's Python daemon runs the code that it is sent. On a Unix domain socket it does not authenticate clients: only the
permissions of the socket's file protect it.
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
    """Files that this process, or one that it starts meanwhile, creates can be opened by its user only."""
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
