"""How old records are where few come and a flow calls Python: `python -m bench.few [--against PROGRAM]`.

Each case is a flow whose steps make other Python stages of Spark's plan, and drop each fifth record by them. With
`--against`, the path of another `sparkmirror` program, both are measured in turns. Prints a row for each case, rate and
program: p50 and p99 from the source broker's append to receipt, and CPU of the whole tree.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.arrivals import Arrivals, summarise
from bench.contestants import render_properties
from bench.even_writer import EvenWriter
from bench.loading import create_topic
from bench.offsets import EndOffsets
from bench.roles import look_at, spent_by_role
from bench.running import Mirror
from sparkmirror.errors import SparkMirrorError
from sparkmirror.testing.guard import Guard
from sparkmirror.testing.kafka import KafkaCluster

_STEPS = """\
import pyarrow.compute as pc
from pyspark.sql import functions as F


@F.arrow_udf("binary")
def marked(values):
    return pc.if_else(pc.is_valid(values), values, None)


def python(records):
    records.sparkSession.udf.register("kept", lambda offset: offset is not None and offset % 5 != 0, "boolean")
    return records.where("kept(offset)")


def arrow(records):
    return records.where("offset % 5 != 0").withColumn("value", marked("value"))


def both(records):
    return python(records).withColumn("value", marked("value"))
"""
_TABLE = "number,kept\n" + "".join(f"{number},{'no' if number == 0 else 'yes'}\n" for number in range(5))
_LOOKUP = "lookup_numbers(cast(offset % 5 AS string)).kept = 'yes'"
_HAS_TABLE = ("lookup", "udf-lookup")
CASES = {
    "sql": {"transforms.where": "offset % 5 != 0"},
    "udf": {"transforms.function": "few_steps:python"},
    "arrow": {"transforms.function": "few_steps:arrow"},
    "lookup": {"transforms.where": _LOOKUP},
    "udf-lookup": {
        "transforms.function": "few_steps:both",
        "transforms.set.key": "coalesce(lookup_numbers(cast(offset % 5 AS string)).kept, 'none')",
    },
}
_START_SECONDS_MAX = 150.0


@dataclass(frozen=True, slots=True)
class Turn:
    """One start of a program with the flow of a case."""

    program: str
    case: str
    number: int


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.few", description=__doc__)
    parser.add_argument("--against", metavar="PROGRAM", help="another `sparkmirror`, measured in turns with this one")
    parser.add_argument("--cases", default=",".join(CASES), help="default: %(default)s")
    parser.add_argument("--rates", default="5,20", help="records/s (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each rate (default: %(default)g)")
    parser.add_argument("--warm", type=float, default=8.0, help="seconds first (default: %(default)g)")
    parser.add_argument("--turns", type=int, default=1, help="of each program (default: %(default)s)")
    args = parser.parse_args(arguments)
    own = str(Path(sys.executable).with_name("sparkmirror"))
    programs = [program for program in (args.against, own) if program]
    rates = [int(rate) for rate in args.rates.split(",")]
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="few-")))
        source = stack.enter_context(KafkaCluster(name="source"))
        target = stack.enter_context(KafkaCluster(name="target"))
        guard = stack.enter_context(Guard(directory))
        (directory / "few_steps.py").write_text(_STEPS)
        (directory / "numbers.csv").write_text(_TABLE)
        for number in range(args.turns):
            for case in args.cases.split(","):
                for program in programs:
                    turn = Turn(program, case, number)
                    for row in _measure(turn, source, target, rates, args.seconds, args.warm, directory, guard):
                        print(row, flush=True)
    return 0


def _measure(
    turn: Turn,
    source: KafkaCluster,
    target: KafkaCluster,
    rates: Sequence[int],
    seconds: float,
    warm_seconds: float,
    directory: Path,
    guard: Guard,
) -> Iterator[str]:
    is_own = turn.program == str(Path(sys.executable).with_name("sparkmirror"))
    alias = f"{turn.case}-{turn.number}-{'b' if is_own else 'a'}"
    topic = f"few-{alias}"
    create_topic(source, topic, partitions=1, configs={"message.timestamp.type": "LogAppendTime"})
    file = directory / f"{alias}.properties"
    file.write_text(render_properties(_properties(turn.case, alias, topic, source, target, directory)))
    log = directory / f"{alias}.log"
    with (
        EndOffsets(target.bootstrap_servers, f"{alias}.{topic}", 1) as ends,
        Mirror([turn.program, "run", str(file)], log, guard, {"PYTHONPATH": str(directory)}) as mirror,
        EvenWriter(source.bootstrap_servers, topic, 1) as writer,
    ):
        writer.write(max(rates))
        try:
            ends.wait(1, mirror.check, seconds_max=_START_SECONDS_MAX, stall_seconds_max=_START_SECONDS_MAX)
        except SparkMirrorError as problem:
            raise SparkMirrorError(f"{problem} The mirror said:\n{mirror.log_tail()}") from None
        with Arrivals(target.bootstrap_servers, f"{alias}.{topic}", 1) as arrivals:
            time.sleep(warm_seconds)
            for rate in rates:
                writer.write(rate)
                time.sleep(3.0)
                arrivals.take()
                before, at = look_at(mirror.pid), time.monotonic()
                time.sleep(seconds)
                took, spent = time.monotonic() - at, spent_by_role(before, look_at(mirror.pid))
                ages = summarise(arrivals.take())
                mirror.check()
                said = f"p50 {ages.p50_ms:6.0f} ms  p99 {ages.p99_ms:6.0f} ms" if ages else "nothing came"
                records = ages.records if ages else 0
                yield (
                    f"{'after' if is_own else 'before':6} {turn.case:10} {rate:5}/s  {said}  {records} records  "
                    f"{sum(spent.values()) / took:.3f} cores: "
                    + ", ".join(f"{role} {seconds / took:.3f}" for role, seconds in spent.items())
                )


def _properties(
    case: str, alias: str, topic: str, source: KafkaCluster, target: KafkaCluster, directory: Path
) -> dict[str, object]:
    table: dict[str, object] = {
        "transforms.table.numbers.path": directory / "numbers.csv",
        "transforms.table.numbers.key": "number",
    }
    return {
        "clusters": f"{alias}, t",
        f"{alias}.bootstrap.servers": source.bootstrap_servers,
        "t.bootstrap.servers": target.bootstrap_servers,
        f"{alias}->t.enabled": "true",
        f"{alias}->t.topics": topic,
        "replication.factor": 1,
        "offset.storage.replication.factor": 1,
        "tasks.max": 1,
        "emit.heartbeats.enabled": "false",
        "emit.checkpoints.enabled": "false",
        **(table if case in _HAS_TABLE else {}),
        **CASES[case],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
