"""What tasks have written is noted together, by topic and partition."""

from pathlib import Path

import pytest

from sparkmirror.errors import EnvironmentProblem
from sparkmirror.model import TopicPartition
from sparkmirror.records.batch_producer import Appended
from sparkmirror.records.offsets_file import note_offsets

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def test_each_write_is_a_line(tmp_path: Path) -> None:
    file = tmp_path / "offsets"
    tasks = [{A: Appended(5, 10, 20)}, {A: Appended(2, 4, 6), B: Appended(1, -1, -1)}, {A: Appended(1, -1, -1)}, {}]
    note_offsets(str(file), tasks, 7)
    note_offsets(str(file), [])
    first, second = file.read_text().splitlines()
    assert first == (
        '{"batchId":7,"offsets":{"t":{"0":{"first":4,"next":20,"records":8},"1":{"first":-1,"next":-1,"records":1}}}}'
    )
    assert second == '{"offsets":{}}'


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match=r"where they lie cannot be noted in .*: No such file"):
        note_offsets(str(tmp_path / "missing" / "offsets"), [])
