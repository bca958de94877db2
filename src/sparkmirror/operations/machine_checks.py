"""Checks whether this machine has what a mirror requires: Java, disk, shared memory, files. Called by `cli.doctor`.

Pure functions judge the figures; the checks leave no file behind.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import psutil

from sparkmirror.cache import cache_directory
from sparkmirror.config.flow.flows import MirrorConfig
from sparkmirror.errors import EnvironmentProblem
from sparkmirror.java import find_java, java_release
from sparkmirror.pipeline.relay.ring import RING_BYTES_MIN, Ring
from sparkmirror.telemetry.jmx_port import HINT, find_open_port, jmx_options
from sparkmirror.views.findings import Finding, Level, show_bytes

_HERE = "this machine"
_DISK_WARN_BYTES, _DISK_FAIL_BYTES = 2_000_000_000, 200_000_000
_ENGINE_BYTES = 1_000_000_000
"""The memory of the JVM and of Spark's Python processes, in addition to the rings."""
_FILES_OF_A_PROCESS = 200
"""Files that a task's process has open in addition to its connections to brokers."""
_PAGE_SERVER: Final = ("starlette", "uvicorn")
"""The packages of the extra `web`."""
_CGROUP = Path("/sys/fs/cgroup")
_OPEN_IN_CHILD = "import os, sys; os.close(os.open(f'/proc/{sys.argv[1]}/fd/{sys.argv[2]}', os.O_RDWR))"


def check_machine(config: MirrorConfig) -> list[Finding]:
    """All findings that require no cluster, for the flows in one process. Without flows no JVM is started."""
    flows = config.flows
    if not flows:
        return list(check_page_server(config))
    brokers = max(len(side.bootstrap_servers.split(",")) for flow in flows for side in (flow.source, flow.target))
    connections = max(flow.connections_per_broker for flow in flows) * brokers
    return [
        check_java(),
        *check_disks(),
        check_shared_memory(),
        judge_memory(sum(flow.tasks_max * flow.lease_ring_bytes for flow in flows), available_bytes()),
        *check_jmx(os.environ),
        *check_page_server(config),
        judge_files(resource.getrlimit(resource.RLIMIT_NOFILE)[0], connections),
    ]


def check_java() -> Finding:
    try:
        java_release()  # which runs it: a broken one may have a new one's files
        return Finding(Level.OK, _HERE, "Java", f"{find_java()} is new enough")
    except EnvironmentProblem as problem:
        return Finding(Level.FAIL, _HERE, "Java", str(problem.args[0]), problem.hint)


def check_jmx(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether a mirror that starts with this environment would open an unprotected port."""
    if (port := find_open_port(jmx_options(environ))) is not None:
        yield Finding(Level.WARN, _HERE, "JMX", port.sentence, HINT)


def check_page_server(config: MirrorConfig) -> Iterator[Finding]:
    """Whether the page and the probes that the file asks for can be served."""
    if config.status.listen or config.status.probes_listen:
        try:
            require_page_server()
        except EnvironmentProblem as problem:
            yield Finding(Level.FAIL, _HERE, "status page", str(problem.args[0]), problem.hint)


def require_page_server(packages: Sequence[str] = _PAGE_SERVER) -> None:
    """Raises EnvironmentProblem where packages are missing that serve the page, `/metrics` and the probes."""
    if missing := [name for name in packages if find_spec(name) is None]:
        raise EnvironmentProblem(
            f"`status.listen` asks for a server of the page, whose packages are not installed: {', '.join(missing)}.",
            "pip install 'sparkmirror[web]', or remove the lines that begin with `status.` from the file",
        )


def check_disks() -> Iterator[Finding]:
    """Checks the disk of Spark's files, and the disk of the files that SparkMirror keeps between runs."""
    places = (("scratch space", Path(tempfile.gettempdir()), "TMPDIR"), ("cache", cache_directory(), "XDG_CACHE_HOME"))
    for what, place, variable in places:
        there = next(parent for parent in (place, *place.parents) if parent.exists())
        if os.access(there, os.W_OK):
            yield judge_disk(what, place, shutil.disk_usage(there).free, variable)
        else:
            yield Finding(Level.FAIL, _HERE, what, f"{there} may not be written to", f"{variable} names another place")


def judge_disk(what: str, place: Path, free_bytes: int, variable: str) -> Finding:
    """Judges free space: a mirror writes little to disk, but ends when the disk is full."""
    level = Level.FAIL if free_bytes < _DISK_FAIL_BYTES else Level.WARN if free_bytes < _DISK_WARN_BYTES else Level.OK
    hint = "" if level is Level.OK else f"make room, or name another place by {variable}"
    return Finding(level, _HERE, what, f"{show_bytes(free_bytes)} free in {place}", hint)


def check_shared_memory() -> Finding:
    """Checks whether one process can map the memory of another, as a writer maps its reader's."""
    ring = Ring(RING_BYTES_MIN)
    try:
        if not ring.ring_bytes:
            return _without_sharing("no memory file could be made")
        address = ring.address
        child = [sys.executable, "-c", _OPEN_IN_CHILD, str(address.pid), str(address.memory)]
        opened = subprocess.run(child, capture_output=True, timeout=30, check=False).returncode == 0
        if not opened:
            return _without_sharing("a process may not open the memory of another (/proc is hidden?)")
        return Finding(Level.OK, _HERE, "shared memory", "a reader's memory can be opened by its writer")
    finally:
        ring.close()


def _without_sharing(why: str) -> Finding:
    hint = "records pass through Spark instead, which costs more CPU; see hidepid and seccomp"
    return Finding(Level.WARN, _HERE, "shared memory", why, hint)


def judge_memory(rings_bytes: int, free_bytes: int) -> Finding:
    """`rings_bytes` is the greatest size of all tasks' leases; flows from distant sources may take twice as much."""
    needed = rings_bytes + _ENGINE_BYTES
    said = f"{show_bytes(free_bytes)} available; rings take up to {show_bytes(rings_bytes)}, the engine about 1 GB"
    hint = "lower tasks.max or lease.ring.bytes, or give the machine or its container more memory"
    if free_bytes < rings_bytes:
        return Finding(Level.FAIL, _HERE, "memory", said, hint)
    if free_bytes < needed:
        return Finding(Level.WARN, _HERE, "memory", said, hint)
    return Finding(Level.OK, _HERE, "memory", said)


def available_bytes() -> int:
    """The memory that processes may still take: that of the machine, or of the container (cgroup v2) where that is
    less."""
    free = int(psutil.virtual_memory().available)
    limit, used = (_read_number(_CGROUP / name) for name in ("memory.max", "memory.current"))
    return free if limit is None or used is None else min(free, max(limit - used, 0))


def _read_number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # no cgroup v2 here, or `max`
        return None


def judge_files(limit: int, connections: int) -> Finding:
    """`connections` counts those of one process to the brokers that the file names; a cluster may have more brokers."""
    unlimited = limit == resource.RLIM_INFINITY
    said = f"{'any number of' if unlimited else limit} open files per process are allowed"
    hint = f"a task opens {connections} connections or more beside its files: raise `ulimit -n`, to 65536 for example"
    if not unlimited and limit < _FILES_OF_A_PROCESS + connections:
        return Finding(Level.FAIL, _HERE, "open files", said, hint)
    if not unlimited and limit < 2 * (_FILES_OF_A_PROCESS + connections):
        return Finding(Level.WARN, _HERE, "open files", said, hint)
    return Finding(Level.OK, _HERE, "open files", said)
