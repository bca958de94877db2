"""Stands for Python where Spark starts one on the driver's machine: asks `spark.fork_server` for a process instead.

Run as a program by the file that `spark.fork_server` writes, with the real Python, the server's socket and the
arguments that Python would have got. The process that is asked for gets this one's standard streams, arguments,
environment and directory; this one lives as long as that does, as `cat`, because Spark watches it. Where no server
answers it becomes the real Python. Imports next to nothing: six of them run in each start.
"""

import os
import sys
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket  # a third of the time of importing `socket`
from struct import pack


def main(python: str, address: str, arguments: list[str]) -> None:
    """Does not return."""
    try:
        server = socket(AF_UNIX, SOCK_STREAM)
        server.connect(address)
        _ask(server, arguments)
    except OSError:
        os.execv(python, [python, *arguments])
    os.dup2(server.fileno(), 0)
    try:
        os.execvp("cat", ["cat"])
    except OSError:
        server.recv(1)


def _ask(server: socket, arguments: list[str]) -> None:
    """Raises OSError when the server has not forked a process."""
    umask = os.umask(0o077)
    os.umask(umask)
    here = os.getcwdb()  # noqa: PTH109 - importing pathlib takes longer than all else here
    environment = [name + b"=" + value for name, value in os.environb.items()]
    words = [here, str(umask).encode(), str(len(arguments)).encode(), *map(os.fsencode, arguments)]
    request = b"\0".join([*words, *environment])
    streams = pack("3i", 0, 1, 2)
    server.sendmsg([pack(">I", len(request))], [(SOL_SOCKET, SCM_RIGHTS, streams)])
    server.sendall(request)
    if server.recv(1) != b"+":
        raise OSError


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
