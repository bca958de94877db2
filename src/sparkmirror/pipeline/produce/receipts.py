"""The commit message that a writer returns to Spark at the end of an epoch. Made in tasks, read in the planning
process."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql.datasource import WriterCommitMessage

from sparkmirror.model import TopicPartition


@dataclass
class Receipt(WriterCommitMessage):
    """A task's last acknowledged source positions and its counts; `fenced` says that a newer instance took over."""

    task: int
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    records: int = 0
    bytes: int = 0
    fenced: str = ""
