"""What a person asked for on the command line, apart from the file. Made by `cli/run.py`, read by the engine."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run the flows of a file.

    `once` ends when the end offsets of the start are reached; `master` is a Spark master URL, None for this machine;
    `debug` shows stack traces; `log_format` is `text` or `json`, "" for what the file says.
    """

    once: bool = False
    master: str | None = None
    debug: bool = False
    log_format: str = ""
