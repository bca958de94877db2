"""Checks whether Spark accepts the transforms of a file's flows, without a cluster.

Called by `cli.config` for `config check`. It opens a Spark session of its own, which takes some seconds.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.errors import ConfigError
from sparkmirror.pipeline.relay.schema import RECORD_DDL
from sparkmirror.spark.cluster import SparkCluster
from sparkmirror.spark.jdbc_tables import JdbcTables
from sparkmirror.spark.jvm import end_session
from sparkmirror.spark.record_plan import transform
from sparkmirror.spark.session import launch_context, open_record_session, open_session


def check_transforms(
    flows: Sequence[FlowConfig], cluster: SparkCluster | None = None, *, debug: bool = False
) -> list[ConfigError]:
    """The transforms that Spark refuses, with its message, key and line; `cluster` is this machine with settings of a
    person's. Raises EnvironmentProblem without Java."""
    with tempfile.TemporaryDirectory(prefix="sparkmirror-") as scratch:
        spark = open_session(launch_context(1, Path(scratch), cluster, debug=debug))
        try:
            rows = open_record_session(spark).createDataFrame([], RECORD_DDL)
            refused = []
            for number, flow in enumerate(flows):
                tables = JdbcTables(flow, Path(scratch) / f"tables-{number}")
                try:
                    transform(rows, tables.ready(rows.sparkSession))
                except ConfigError as problem:
                    refused.append(problem)
                finally:
                    tables.end()
            return refused
        finally:
            end_session(spark)
