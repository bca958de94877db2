"""A Spark session for a comparison, from its start to its end. Called by `cli.verify` and `cli.migrate`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sparkmirror.spark.cluster import plan_cluster
from sparkmirror.spark.jvm import end_session
from sparkmirror.spark.session import FIXED_SETTINGS, launch_context, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def comparing_session(scratch: Path, master: str | None = None, *, debug: bool = False) -> "Iterator[SparkSession]":
    """As many spans at a time as there are processors, or as the cluster has slots. Raises SparkMirrorError."""
    cluster = plan_cluster(master, {}, FIXED_SETTINGS, None) if master else None
    spark = open_session(launch_context(max(os.cpu_count() or 1, 2), scratch, cluster, debug=debug))
    try:
        yield spark
    finally:
        end_session(spark)
