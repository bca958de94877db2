"""Whether another process of this machine still lives, by the mark in its client id. Called by `engine.crew`.

A mark names the machine's boot and the process namespace, so that a number of another container is not mistaken.
"""

import re
from functools import cache
from hashlib import sha256
from os import getpid
from pathlib import Path

import psutil

_MARK = re.compile(r"-share-([0-9a-f]{8})-(\d+)-(\d+)$")


def own_mark() -> str:
    """`share-<machine>-<pid>-<start in ms>`, the role that ends this process's client id."""
    return f"share-{_machine()}-{getpid()}-{_started_ms(getpid())}"


def is_dead_neighbour(client_id: str) -> bool:
    """Whether the client was a process of this machine and is no more. Nothing is said of other machines'."""
    found = _MARK.search(client_id)
    if found is None or found[1] != _machine():
        return False
    return _started_ms(int(found[2])) != int(found[3])


def _started_ms(pid: int) -> int:
    """0 when there is none, or one that has ended and is not collected."""
    try:
        process = psutil.Process(pid)
        return 0 if process.status() == psutil.STATUS_ZOMBIE else round(process.create_time() * 1000)
    except psutil.Error:
        return 0


@cache
def _machine() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return sha256(f"{boot} {Path('/proc/self/ns/pid').readlink()}".encode()).hexdigest()[:8]
