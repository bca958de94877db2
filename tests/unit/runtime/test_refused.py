"""What ends a mirror: a partition whose reason says so, among however many that failed."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.flows import flow_of

from sparkmirror.errors import SparkMirrorError
from sparkmirror.pipeline.produce.repartition import WAITS
from sparkmirror.policy.loss import ENDS_THE_MIRROR
from sparkmirror.runtime.run import _fail_on_refused_record
from sparkmirror.stored_json import encode
from sparkmirror.telemetry.board import StatusBoard
from sparkmirror.telemetry.records import encode_key

LOST = f"5 offsets are gone: {ENDS_THE_MIRROR}"


def told(board: StatusBoard, number: int, reason: str, run: str = "r") -> None:
    value = {"run": run, "task": 0, "epoch": 1, "offset": 7, "state": "FAILED" if reason else "RUNNING"}
    board.take(encode_key("partition", "A", "orders", number), encode(value | {"reason": reason}), 1)


def board_of(named: dict[str, str], run: str = "r") -> StatusBoard:
    """A task names a hundred of its failed partitions."""
    board = StatusBoard("A", run)
    board.take(encode_key("task", "A", 0), encode({"run": run, "task": 0, "epoch": 1, "failed": named}), 1)
    return board


def look(board: StatusBoard, *lines: str) -> None:
    watch: Any = SimpleNamespace(flow=flow_of(*lines), board=board, status=board.status())
    _fail_on_refused_record([watch])


@pytest.mark.parametrize(
    ("named", "reason", "lines"),
    [("not authorized", LOST, ()), (f"{WAITS[0]} b.orders", "the record is too large", ("on.send.failure = fail",))],
)
def test_a_partition_ends_the_mirror_that_its_task_has_no_room_to_name(
    named: str, reason: str, lines: tuple[str, ...]
) -> None:
    board = board_of({f"audit-{n}": named for n in range(100)})
    look(board, *lines)
    told(board, 3, reason)
    with pytest.raises(SparkMirrorError, match=f"A->B orders-3: {reason}"):
        look(board, *lines)
    told(board, 3, "")
    look(board, *lines)


def test_a_failure_of_an_earlier_run_does_not_end_a_new_one() -> None:
    """Its reason is known from the history; on.data.loss may be another one now."""
    before, board = board_of({}), board_of({}, "r2")
    told(before, 3, LOST)
    board.inherit(before)
    look(board)
