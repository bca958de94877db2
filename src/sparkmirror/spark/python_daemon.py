"""Spark's Python daemon with our modules loaded before it forks: workers start at once and share the memory.

Spark runs this module in place of `pyspark.daemon` (`spark.python.daemon.module`), with the worker module's name as its
only argument, once per kind of worker. Measured on two tasks: see DESIGN.md.
"""

import gc
import importlib
import os
import sys
from pathlib import Path

from sparkmirror.spark.privacy import PRIVATE_UMASK

# Loaded only in the daemon that forks the tasks; the other kinds fork one process each.
_TASK_MODULES = (
    "pyarrow",
    "pyspark.sql.worker.plan_data_source_read",
    "sparkmirror.logs.handlers",
    "sparkmirror.pipeline.fetch.reader",
    "sparkmirror.spark.run_writer",
    "sparkmirror.pipeline.produce.writer",
)


_SWITCH_SECONDS = 0.0005
"""How long a thread may keep the interpreter from another that is ready: while numba was imported beside them, as it
is where kernels must be compiled, a turn of the sender's loop, which lets go a dozen times, took up to 88 ms with
Python's 5 ms, and 11 with this."""


_YOUNG_OBJECTS = 50_000
"""How many more objects are there before garbage is looked for. Nearly none is: what a filter leaves of its batches'
offsets, many small tuples, cost a quarter of the writer's time by Python's 700."""


def preload(worker_module: str) -> None:
    """Import what the workers will need. No import may start a thread: threads do not survive a fork."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    worker = importlib.import_module(worker_module)
    if worker_module == "pyspark.worker":
        from sparkmirror.spark.arrow_streams import WrappedOnce, on_one_thread
        from sparkmirror.spark.python_udfs import by_hundreds

        worker.read_udfs = on_one_thread(by_hundreds(worker.read_udfs))  # type: ignore[attr-defined]
        transformer = worker.ArrowBatchTransformer
        transformer.wrap_struct = WrappedOnce(transformer.wrap_struct)
        for module in _TASK_MODULES:
            importlib.import_module(module)
        if directory := os.environ.get("SPARKMIRROR_KILL_POINTS"):
            importlib.import_module("sparkmirror.testing.kill_points").install(Path(directory))
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS)
    sys.setswitchinterval(_SWITCH_SECONDS)


if __name__ == "__main__":
    os.umask(PRIVATE_UMASK)  # an executor's JVM was started by others
    preload(sys.argv[1])
    from pyspark.daemon import manager

    manager()
