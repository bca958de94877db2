"""The reading end of `kafka-records`: that of `kafka-runs`, decoded. Spark finds it through `spark.kafka_records`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sparkmirror.spark.run_reader import KafkaRunsReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition


class KafkaRecordsReader(KafkaRunsReader):
    """Plans as `KafkaRunsReader` does; rows are records."""

    def read(self, partition: "InputPartition") -> Iterator["pa.RecordBatch"]:
        from sparkmirror.batch.unpacking import bound_for
        from sparkmirror.pipeline.fetch.record_rows import decode_rows

        return decode_rows(super().read(partition), bound_for(self._options.flow().unpacked_bytes_max))
