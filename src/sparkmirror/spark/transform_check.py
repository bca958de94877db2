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
from sparkmirror.spark.session import launch_context, open_flow_sessions, open_session


def check_transforms(
    flows: Sequence[FlowConfig], cluster: SparkCluster | None = None, *, debug: bool = False
) -> list[ConfigError]:
    """The transforms that Spark refuses, with its message, key and line; `cluster` is this machine with settings of a
    person's. Raises EnvironmentProblem without Java."""
    with tempfile.TemporaryDirectory(prefix="sparkmirror-") as scratch:
        spark = open_session(launch_context(1, Path(scratch), cluster, debug=debug))
        try:
            refused = []
            for number, (flow, session) in enumerate(zip(flows, open_flow_sessions(spark, flows), strict=True)):
                rows = session.createDataFrame([], RECORD_DDL)
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
