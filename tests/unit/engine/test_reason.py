"""What is told of a query that failed."""

import pytest

from sparkmirror.engine.run import _reason

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
        (JAVA, "org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device"),
        ("Job aborted.\nmore", "Job aborted."),
        ("", "unknown"),
    ],
    ids=["an error of ours", "any other", "Java", "no traceback", "nothing"],
)
def test_the_line_that_says_why_is_told(text: str, told: str) -> None:
    assert _reason(text) == told
