"""What a person asked for on the command line, apart from the file. Made by `cli/run.py`, read by the engine."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run the flows of a file.

    `once` ends when the end offsets of the start are reached; `master` is a Spark master URL, None for this machine;
    `debug` shows stack traces.
    """

    once: bool = False
    master: str | None = None
    debug: bool = False
