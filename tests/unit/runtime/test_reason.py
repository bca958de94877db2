"""What is told of a query that failed."""

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from sparkmirror.errors import SparkMirrorError
from sparkmirror.runtime.running_flow import reason_of
from sparkmirror.spark.jvm import jvm_expected

TRACEBACK = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "writer.py", line 66, in write
    raise
{raised}
 SQLSTATE: 38000
=== Streaming Query ===
"""
JAVA = """An error occurred while calling o262.start.
: org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device
\tat org.apache.hadoop.fs.RawLocalFileSystem$LocalFSFileOutputStream.write(RawLocalFileSystem.java:549)
Caused by: java.io.IOException: No space left on device
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (TRACEBACK.format(raised="sparkmirror.errors.ClusterError: B is full."), "B is full."),
        (TRACEBACK.format(raised="ValueError: too many values"), "ValueError: too many values"),
        (TRACEBACK.format(raised="TimeoutError"), "TimeoutError"),
        (JAVA, "org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device"),
        ("Job aborted.\nmore", "Job aborted."),
        ("", "unknown"),
    ],
    ids=["an error of ours", "any other", "one without a word", "Java", "no traceback", "nothing"],
)
def test_the_line_that_says_why_is_reported(text: str, told: str) -> None:
    assert reason_of(text) == told


@pytest.mark.parametrize(
    "lost",
    [
        Py4JNetworkError("Error while sending or receiving"),
        Py4JError("An error occurred while calling o169.isActive"),
        ConnectionResetError(104, "Connection reset by peer"),
    ],
)
def test_a_jvm_that_is_gone_is_reported_in_a_sentence(lost: Exception) -> None:
    with pytest.raises(SparkMirrorError, match="Spark's JVM has ended"), jvm_expected():
        raise lost


def test_what_java_answered_is_not_taken_for_a_jvm_that_is_gone() -> None:
    answer = Py4JError(
        "An error occurred while calling o1.foo. Trace:\npy4j.Py4JException: Method foo([]) does not exist"
    )
    with pytest.raises(Py4JError), jvm_expected():
        raise answer
