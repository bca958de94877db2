"""The same rows have the same number, however they are cut and in whatever order; other rows have another."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.records.fingerprint import Fingerprint

SCHEMA = pa.schema(
    [("key", pa.binary()), ("value", pa.string()), ("partition", pa.int32()), ("timestamp", pa.timestamp("us"))]
)
ROWS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=3), st.none() | st.text(max_size=3), st.none() | st.integers(0, 3),
        st.none() | st.integers(0, 9),
    ),
    max_size=9,
)  # fmt: skip
Rows = list[tuple[Any, ...]]


def fingerprint(*batches: Rows) -> tuple[int, int]:
    found = Fingerprint()
    for rows in batches:
        columns = zip(*rows, strict=True) if rows else [[] for _ in SCHEMA]
        found.add(
            pa.RecordBatch.from_arrays(
                [pa.array(list(one), kind.type) for one, kind in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
            )
        )
    return found.rows, found.checksum


@given(ROWS, st.integers(0, 9), st.randoms(use_true_random=False))
def test_cuts_and_order_change_nothing(rows: Rows, cut: int, random: Any) -> None:
    other = rows[:cut], rows[cut:]
    shuffled = rows.copy()
    random.shuffle(shuffled)
    assert fingerprint(rows) == fingerprint(*other) == fingerprint(shuffled)


@given(ROWS, ROWS)
def test_other_rows_have_another_number(rows: Rows, others: Rows) -> None:
    alike = sorted(rows, key=repr) == sorted(others, key=repr)
    assert (fingerprint(rows) == fingerprint(others)) is alike


def test_null_is_no_empty_value() -> None:
    assert fingerprint([(None, "", 0, 0)]) != fingerprint([(b"", "", 0, 0)])
    assert fingerprint([(b"a", "b", 0, 0)]) != fingerprint([(b"ab", "", 0, 0)])
