"""Where written records came to lie: a JSON line for each write or micro-batch. Called by `records.sink` in the driver.

    {"batchId": 7, "offsets": {"orders": {"0": {"first": 120, "next": 150, "records": 30}}}}

Records of others may lie between `first` and `next`. A broker that had a batch already may not say where: then both are
-1, or leave that batch out.
"""

from collections.abc import Iterable
from pathlib import Path

from sparkmirror.errors import EnvironmentProblem
from sparkmirror.model import TopicPartition
from sparkmirror.records.batch_producer import Appended
from sparkmirror.stored_json import encode


def note_offsets(file: str, tasks: Iterable[dict[TopicPartition, Appended]], batch_id: int | None = None) -> None:
    """Appends a line with what all tasks have written. Raises EnvironmentProblem."""
    try:
        with Path(file).open("ab") as lines:
            lines.write(offsets_line(tasks, batch_id))
    except OSError as problem:
        raise EnvironmentProblem(
            f"The records are written, but where they lie cannot be noted in {file}: {problem.strerror}.",
            "offsetsFile names a file that the driver may write.",
        ) from problem


def offsets_line(tasks: Iterable[dict[TopicPartition, Appended]], batch_id: int | None = None) -> bytes:
    whole: dict[TopicPartition, Appended] = {}
    for appended in tasks:
        for where, one in appended.items():
            whole.setdefault(where, Appended()).add(one)
    offsets: dict[str, dict[str, dict[str, int]]] = {}
    for where, one in sorted(whole.items()):
        places = {"first": one.first_offset, "next": one.next_offset, "records": one.records}
        offsets.setdefault(where.topic, {})[str(where.partition)] = places
    return encode(({} if batch_id is None else {"batchId": batch_id}) | {"offsets": offsets}) + b"\n"
