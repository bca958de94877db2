"""Java's own consumer as a witness (`Reader.java`): what it reads of a topic, and how a group of it reads on."""

import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.oracle import Client

from sparkmirror.java import find_java
from sparkmirror.testing.jars import KAFKA, class_path
from sparkmirror.testing.process import QUICK_START

PROGRAM = Path(__file__).with_name("Reader.java")
SECONDS_MAX = 240

Place = tuple[int, bytes | None, bytes | None, tuple[int, int], tuple[tuple[str, bytes | None], ...]]
"""Offset, key, value, kind and milliseconds of its time, headers."""


class ReadOn(NamedTuple):
    """What a group read, and how long that took from the assignment on, in words."""

    log: dict[int, list[Place]]
    said: str


def read_with_java(client: Client, topic: str, isolation_level: str = "read_uncommitted") -> dict[int, list[Place]]:
    """All records of a topic, by partition; partitions without any are left out."""
    return _read(_run("all", client["bootstrap.servers"], isolation_level, topic).stdout)


def read_on_with_java(
    client: Client, topic: str, group: str, protocol: str, records: int, seconds_max: float = 60.0
) -> ReadOn:
    """So many records from where the group stands, or what comes within so long of the assignment; committed."""
    given = client["bootstrap.servers"], protocol, group, topic, str(records), str(seconds_max)
    done = _run("group", *given)
    return ReadOn(_read(done.stdout), done.stderr.strip().splitlines()[-1])


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    java = [str(find_java()), *QUICK_START, "-cp", class_path(KAFKA), str(PROGRAM), *arguments]
    done = subprocess.run(java, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.returncode == 0, done.stderr
    return done


def _read(output: str) -> dict[int, list[Place]]:
    found: dict[int, list[Place]] = {}
    for line in output.splitlines():
        partition, offset, kind, time_ms, key, value, headers = line.split("\t")
        pairs = (one.split("=") for one in headers.split(",") if one)
        seen = tuple((bytes.fromhex(name).decode(), _bytes(text)) for name, text in pairs)
        place = int(offset), _bytes(key), _bytes(value), (int(kind), int(time_ms)), seen
        found.setdefault(int(partition), []).append(place)
    return found


def _bytes(text: str) -> bytes | None:
    return None if text == "null" else bytes.fromhex(text)
