"""Where and with what a benchmark ran: the head of its results. Called by `bench.command`."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from sparkmirror.java import find_java
from sparkmirror.testing.jars import KAFKA, MIRROR_MAKER

ROOT = Path(__file__).resolve().parent.parent


def describe_run(load_before: float) -> list[str]:
    """Lines of Markdown: date, machine, versions, commit. `load_before` is the machine's load average at the start."""
    return [
        f"- Machine: {os.cpu_count()} cores ({_cpu_model()}), {_memory_gigabytes():.0f} GB of memory, "
        f"{platform.system()} {platform.release()}; load average before the run {load_before:.2f}",
        f"- Versions: SparkMirror {version('sparkmirror')}, PySpark {version('pyspark')}, "
        f"Python {platform.python_version()}, Java {_java_version()}, brokers {KAFKA.version}, "
        f"MirrorMaker 2 {MIRROR_MAKER.version}",
        f"- Commit: {git_commit()}",
    ]


def idle_core_seconds() -> float:
    """How long the machine's cores have had nothing to do, added up since it was started (proc(5): idle and iowait)."""
    _, _, _, _, idle, waiting, *_ = Path("/proc/stat").read_text().split(maxsplit=7)
    return (int(idle) + int(waiting)) / os.sysconf("SC_CLK_TCK")


def today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def git_commit() -> str:
    """The commit, with a note when files of the product or the benchmark differ from it."""
    commit = _output("git", "rev-parse", "--short", "HEAD")
    if not commit:
        return "unknown (not a git repository)"
    changed = _output("git", "status", "--porcelain", "--", "src", "bench")
    return f"{commit} with uncommitted changes" if changed else commit


def _output(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _java_version() -> str:
    done = subprocess.run([find_java(), "-version"], capture_output=True, text=True, timeout=30, check=False)
    first = (done.stderr or "unknown").splitlines()[0]
    return first.partition('"')[2].partition('"')[0] or first


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gigabytes() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
