"""Launches Spark's JVM beside other work, reports its end, and leaves it behind when it does not answer. Called by
`runtime.run`."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sparkmirror.errors import SparkMirrorError
from sparkmirror.stop_request import StopRequest

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_TICK_SECONDS = 0.25
END_SECONDS_MAX = 10.0


class Launch:
    """Spark's JVM, started on a thread while the clusters are asked. It ends by itself if nobody waits for it."""

    def __init__(self, launch: "Callable[[], SparkContext]") -> None:
        self._launch = launch
        self._context: SparkContext | None = None
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="sparkmirror-launch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._context = self._launch()
        except BaseException as problem:
            self._problem = problem

    def wait(self, stop: StopRequest) -> "SparkContext | None":
        """None when asked to stop meanwhile. Raises what the launch raised."""
        while self._thread.is_alive():
            if stop.is_set():
                return None
            self._thread.join(_TICK_SECONDS)
        if self._problem is not None:
            raise self._problem
        return self._context


@contextmanager
def jvm_expected() -> Iterator[None]:
    """Reports the end of the JVM in a sentence: py4j only knows that its socket broke, or that no answer came."""
    from py4j.protocol import Py4JError

    try:
        yield
    except (Py4JError, OSError) as problem:
        if "Trace:" in str(problem) or hasattr(problem, "java_exception"):  # Java has answered
            raise
        hint = "Start the mirror again: it goes on from its stored positions."
        raise SparkMirrorError("Spark's JVM has ended, and with it the mirror.", hint) from None


def end_session(spark: "SparkSession") -> None:
    """A JVM that does not answer is left behind: it ends when our end of its standard input is closed."""

    def end() -> None:
        with suppress(Exception):
            spark.stop()

    ender = threading.Thread(target=end, daemon=True)
    ender.start()
    ender.join(END_SECONDS_MAX)
