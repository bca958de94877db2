"""Measures `sparkmirror verify` on what a copy has left, by its own report. Called by `bench.plan`."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.contestants import Job
from bench.workloads import Workload
from sparkmirror.errors import SparkMirrorError

VERIFY_SECONDS_MAX = 900.0


@dataclass(frozen=True, slots=True)
class Verified:
    """What one comparison took: `seconds` its own, `start_seconds` those of the command beside them.

    `identical_share` of the bytes were in batches that both sides have byte for byte.
    """

    records: int
    megabytes: float
    seconds: float
    start_seconds: float
    identical_share: float

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds


def measure_verify(job: Job, workload: Workload, directory: Path) -> Verified:
    """Compares the topic with its copy, whole. Raises SparkMirrorError when they are not proven equal."""
    command = Path(sys.executable).with_name("sparkmirror")
    began = time.monotonic()
    done = subprocess.run(
        [str(command), "verify", str(directory / f"{job.alias}.properties"), "--format", "json"],
        capture_output=True, text=True, timeout=VERIFY_SECONDS_MAX, check=False,
    )  # fmt: skip
    took = time.monotonic() - began
    if done.returncode != 0:
        raise SparkMirrorError(f"The copy was not proven equal: {(done.stderr or done.stdout)[-500:]}")
    (report,) = json.loads(done.stdout)
    records: int = report["records"]
    return Verified(
        records,
        workload.megabytes * records / workload.records,
        report["seconds"],
        took - report["seconds"],
        report["identical_bytes"] / max(report["bytes"], 1),
    )
