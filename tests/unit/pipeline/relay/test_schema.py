"""Rows and plan rows survive Arrow and JSON as they were meant."""

from uuid import UUID

from sparkmirror.control.assignment import Assigned, TaskPlan
from sparkmirror.ledger.lineage import Extent
from sparkmirror.model import Position, TopicPartition
from sparkmirror.pipeline.relay.plan_row import PlanRow, plan_row
from sparkmirror.pipeline.relay.ring import RingAddress
from sparkmirror.pipeline.relay.schema import FLUSH, PLAN, ROW_DDL, ROW_SCHEMA, RUN, TRAIL, Row, close, to_arrow


def test_a_rows_fields_are_the_schemas_columns_in_order() -> None:
    assert list(Row._fields) == ROW_SCHEMA.names == [column.split()[0] for column in ROW_DDL.split(", ")]


def test_rows_come_out_of_arrow_as_they_went_in() -> None:
    rows = [
        Row(
            RUN,
            "orders",
            3,
            1 << 40,
            (1 << 40) + 5,
            2,
            5,
            300,
            1_700_000_000_000,
            1 << 41,
            1_700_000_000_001,
            7,
            1,
            b"\0x",
        ),
        Row(RUN, "orders", 3, 0, 5, lease=1 << 50),
        Row(FLUSH),
    ]
    batch = to_arrow(rows)
    assert batch.schema == ROW_SCHEMA
    assert [Row(**row) for row in batch.to_pylist()] == rows
    closed = [Row(**row) for row in close(rows, announced=9).to_pylist()]
    assert closed == [*rows, Row(FLUSH, first_offset=9), Row(TRAIL)]


def test_the_writer_reads_from_a_plan_row_what_the_reader_put_in() -> None:
    before = Position(500, ((3, 0), (4, 90)), UUID(int=4))
    recreated = Assigned(
        TopicPartition("zahlungen-ü", 0),
        0,
        (),
        UUID(int=5),
        end=9,
        restarted_from=before,
    )
    extent, found = Extent("A.orders", UUID(int=6), 42), Extent("A.orders", UUID(int=7), 0)
    known = Assigned(TopicPartition("orders", 3), 42, ((7, 40),), UUID(int=1 << 100), extent=extent, found=found)
    plan = TaskPlan(2, "run-1", 5, 8, 600.0, (known,), 1000, 6, {}, {}, 0, 50)
    ring = RingAddress(123, 4, 5, 6, 1 << 20)
    row = plan_row(plan, 9, [(known, 0), (recreated, -1)], ring)
    assert row.kind == PLAN
    assert row.payload is not None
    parsed = PlanRow.parse(row.payload)
    assert parsed == PlanRow(2, "run-1", 5, 9, 1000, 6, ring, 50, ((known, 0), (recreated, -1)))
