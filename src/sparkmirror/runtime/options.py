"""The options of the command line, apart from the configuration file. Made by `cli/run.py`, read by `runtime`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkmirror.spark.cluster import SparkCluster


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run the flows of a file. `once` ends when the end offsets of the start are reached; `cluster` is a Spark
    cluster, None for this machine; `debug` shows stack traces; `log_format` is `text` or `json`, "" for the file's
    choice."""

    once: bool = False
    cluster: "SparkCluster | None" = None
    debug: bool = False
    log_format: str = ""
