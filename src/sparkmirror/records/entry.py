"""What `kafka-records`, and `kafka-runs` without a mirror, are to Spark: readers and writers, made of their options.

Called by `records.kafka_records` and `spark.kafka_runs`; `source` is one of `records.options`. Spark asks in several
short-lived processes: what they do not need is imported where it is used.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sparkmirror.errors import ConfigError
from sparkmirror.records.options import RECORDS, WriteOptions, check_names, read_options, write_options

if TYPE_CHECKING:
    from sparkmirror.records.batch_reader import RecordsReader
    from sparkmirror.records.sink import RecordsStreamWriter, RecordsWriter
    from sparkmirror.records.stream_reader import RecordsStreamReader

Options = Mapping[str, str]


def source_ddl(source: str, given: Options) -> str:
    """The columns of a read. Raises ConfigError, as all here."""
    check_names(given, source)
    return _ddl(source)


def _ddl(source: str) -> str:
    if source == RECORDS:
        from sparkmirror.records.rows import DDL
    else:
        from sparkmirror.records.run_rows import DDL
    return DDL


def batch_reader(source: str, given: Options, schema: Any) -> "RecordsReader":
    from sparkmirror.records.batch_reader import RecordsReader

    _check_schema(source, schema)
    return RecordsReader(read_options(given, is_stream=False, source=source))


def stream_reader(source: str, given: Options, schema: Any) -> "RecordsStreamReader":
    from sparkmirror.records.stream_reader import RecordsStreamReader

    _check_schema(source, schema)
    return RecordsStreamReader(read_options(given, is_stream=True, source=source))


def batch_writer(source: str, given: Options, schema: Any, overwrite: bool) -> "RecordsWriter":
    from sparkmirror.records.sink import RecordsWriter

    return RecordsWriter(_write_options(source, given, schema, overwrite, is_stream=False))


def stream_writer(source: str, given: Options, schema: Any, overwrite: bool) -> "RecordsStreamWriter":
    from sparkmirror.records.sink import RecordsStreamWriter

    return RecordsStreamWriter(_write_options(source, given, schema, overwrite, is_stream=True))


def _write_options(source: str, given: Options, schema: Any, overwrite: bool, *, is_stream: bool) -> WriteOptions:
    if overwrite:
        raise ConfigError(f"{source} appends to topics and cannot overwrite them.", 'Use .mode("append").')
    options = write_options(given, is_stream=is_stream, source=source)
    columns = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    if source == RECORDS:
        from sparkmirror.records.sink_columns import check_columns

        check_columns(columns, options.topic)
    else:
        from sparkmirror.records.run_columns import check_run_columns

        check_run_columns(columns, options.topic)
    return options


def _check_schema(source: str, schema: Any) -> None:
    """A read has the columns that it has."""
    if source == RECORDS:
        from sparkmirror.records.rows import SCHEMA
    else:
        from sparkmirror.records.run_rows import SCHEMA
    if list(schema.names) != SCHEMA.names:
        raise ConfigError(f"{source} has columns of its own and takes no schema.", "Leave .schema(…) out.")
