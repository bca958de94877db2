"""Which rows a task of a transactional write has, and whether its micro-batch may be a repeated one."""

import pytest

from sparkmirror.errors import ConfigError
from sparkmirror.records.task_transaction import TaskOfWrite, begins_run, task_of_stream

PROPERTIES = {"streaming.sql.batchId": "7", "sql.streaming.queryId": "query", "spark.jobGroup.id": "run"}


def test_spark_tells_each_task_its_micro_batch() -> None:
    assert task_of_stream(3, PROPERTIES.get) == TaskOfWrite("query", 7, 3, "run")


@pytest.mark.parametrize("absent", ["streaming.sql.batchId", "sql.streaming.queryId"])
def test_a_task_that_does_not_know_its_micro_batch_writes_nothing(absent: str) -> None:
    properties = {name: value for name, value in PROPERTIES.items() if name != absent}
    with pytest.raises(ConfigError, match="Spark does not tell this task its micro-batch"):
        task_of_stream(3, properties.get)


def test_a_micro_batch_may_be_a_repeated_one_until_a_later_one_comes() -> None:
    write = "a query of this test"
    assert begins_run(TaskOfWrite(write, 7, 3, "one start"))
    assert begins_run(TaskOfWrite(write, 7, 1, "one start")), "another task of the same"
    assert not begins_run(TaskOfWrite(write, 8, 3, "one start"))
    assert begins_run(TaskOfWrite(write, 8, 3, "another start"))
