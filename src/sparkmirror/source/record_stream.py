"""The reading end of `kafka-records`: that of `kafka-runs`, decoded. Spark finds it through `relay.kafka_records`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sparkmirror.source.stream import KafkaRunsReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition


class KafkaRecordsReader(KafkaRunsReader):
    """Plans as `KafkaRunsReader` does; rows are records."""

    def read(self, partition: "InputPartition") -> Iterator["pa.RecordBatch"]:
        from sparkmirror.batch.unpacking import bound_for
        from sparkmirror.source.record_rows import decode_rows

        return decode_rows(super().read(partition), bound_for(self._options.flow().unpacked_bytes_max))
