"""How a command ends: its exit status, and a sentence where a stack trace would be.

Called by `cli.main` for every command.
"""

import argparse
import errno
import os
import re
import select
import sys
import traceback
from collections.abc import Callable

from sparkmirror.errors import ClusterUnreachable, EnvironmentProblem, SparkMirrorError
from sparkmirror.shown import show_lines

INTERRUPTED = 130
UNREAD = 141
"""The reader of the output has gone, as `head` goes: a shell shows this for a program that SIGPIPE ends."""


def guarded(args: argparse.Namespace, prog: str) -> int:
    """Runs the command and gives its exit status; what it raises becomes a sentence on stderr."""
    command: Callable[[argparse.Namespace], int] = args.command
    try:
        return command(args)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as unexpected:
        if _is_unread(unexpected):
            raise
        if _is_full(unexpected):
            _drop_output()  # else what is left of it would fail once more
        error = in_words(unexpected)
        if args.debug:
            traceback.print_exc()
        tell(error, args, prog)
        for another in _other_absences(error, args):
            tell(another, args, prog)
        return _status(error, args)


def _other_absences(error: SparkMirrorError, args: argparse.Namespace) -> list[ClusterUnreachable]:
    """Where one cluster of the file does not answer: why others of its flows do not either. They are asked side by
    side, so that nobody mends one address after the other."""
    config = getattr(args, "config", None)
    if config is None or not isinstance(error, ClusterUnreachable):
        return []

    from sparkmirror.kafka.patience import impatient
    from sparkmirror.kafka.reach import find_unreachable

    named = re.match(r"Cluster ([^ :]+)", str(error))
    with impatient():
        return find_unreachable([one for one in config.sides if named is None or one.alias != named[1]])


def end_quietly(work: Callable[[], int]) -> int:
    """Runs `work` and writes out what it printed; nothing is said where the reader of stdout has gone."""
    try:
        try:
            return work()
        finally:
            sys.stdout.flush()
    except BrokenPipeError as closed:
        if not _is_unread(closed):
            raise
        _drop_output()
        return UNREAD
    except OSError as failed:
        _drop_output()
        print(show_lines(f"sparkmirror: {in_words(failed)}"), file=sys.stderr)
        return SparkMirrorError.exit_status


def tell(error: SparkMirrorError, args: argparse.Namespace, prog: str) -> None:
    """Prints in the form of the command's other output: the file that the command read may have asked for JSON."""
    from sparkmirror.logs.handlers import log_end, logs_json

    if getattr(args, "log_format", "") == "json" or logs_json():
        log_end(str(error.args[0]), error.hint)
    else:
        print(show_lines(f"{prog}: {error}"), file=sys.stderr)


def in_words(error: Exception) -> SparkMirrorError:
    """The same as an error for people."""
    if isinstance(error, SparkMirrorError):
        return error
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("sparkmirror"):
        missing = error.name.partition(".")[0]
        return EnvironmentProblem(f"the Python package `{missing}` is missing", "install SparkMirror again with pip")
    if _is_full(error):
        where = getattr(error, "filename", None) or "where the output goes"
        return SparkMirrorError(f"the disk is full: {where} could not be written", "make room there, and run it again")
    said = " ".join(str(error).split()) or "nothing more is known"
    return SparkMirrorError(f"unexpected {type(error).__name__}: {said}", "run again with --debug to see where")


def _is_full(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def _status(error: SparkMirrorError, args: argparse.Namespace) -> int:
    """A command whose status 1 is an answer ends with another one where it failed."""
    is_failure = error.exit_status == SparkMirrorError.exit_status
    return getattr(args, "failure_status", error.exit_status) if is_failure else error.exit_status


def _is_unread(error: Exception) -> bool:
    """Whether nobody reads stdout any more, rather than a connection that broke."""
    if not isinstance(error, BrokenPipeError):
        return False
    try:
        watched = select.poll()
        watched.register(sys.stdout.fileno(), select.POLLOUT)
        return any(events & (select.POLLERR | select.POLLHUP) for _, events in watched.poll(0))
    except (OSError, ValueError):
        return False


def _drop_output() -> None:
    """Drops what is left of the output: the interpreter would write it at its end, and fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
