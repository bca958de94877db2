"""Every error that a person may see, as a small tree.

    SparkMirrorError           exit status 1, run-time
    ├── ClusterError           a cluster did not do what was asked; names the alias
    │   ├── ClusterUnreachable
    │   ├── UnsupportedByBrokers
    │   ├── AuthenticationFailed
    │   └── AuthorizationFailed
    ├── ProtocolError          a broker sent what we cannot read; the connection is dropped and made again
    │   └── ContentTooLarge    a batch becomes more than it may when it is unpacked; it is not unpacked
    ├── RecordTooLarge         a record does not fit the target topic's max.message.bytes; its partition is FAILED
    ├── TableProblem           a table that transforms look up cannot be read, or looked up so
    ├── RegistryProblem        a schema registry did not do what transforms asked of it
    ├── FencedError            another instance has taken over; this one stops
    ├── ConfigError            exit status 2; names key, file and line
    └── EnvironmentProblem     exit status 3; something this machine lacks

A message is a sentence: what, where. `hint` says what to do next. Log-ins of URLs are hidden in it (invariant 10).
"""

from typing import ClassVar

from sparkmirror.shown import hide_user_info


class SparkMirrorError(Exception):
    """The operation failed; the message says what and where."""

    exit_status: ClassVar[int] = 1
    retriable: ClassVar[bool] = False

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(hide_user_info(message))
        self.hint = hint

    def __str__(self) -> str:
        message: str = self.args[0]
        return f"{message}\n  hint: {self.hint}" if self.hint else message


class ClusterError(SparkMirrorError):
    """A Kafka cluster refused or failed a request."""


class ClusterUnreachable(ClusterError):
    """No broker of the cluster answered."""

    retriable = True


class UnsupportedByBrokers(ClusterError):
    """The brokers do not know a request, or no version of it that we know."""


class AuthenticationFailed(ClusterError):
    """The cluster refused the credentials or the certificate."""


class AuthorizationFailed(ClusterError):
    """The principal lacks a permission."""


class ProtocolError(SparkMirrorError):
    """A broker's answer could not be read."""

    retriable = True


class ContentTooLarge(ProtocolError):
    """A batch becomes more than it may when it is unpacked, by what its frames say or what came out so far."""


class RecordTooLarge(SparkMirrorError):
    """A single record is larger than the target topic takes; sizes are those of a batch with this record alone."""

    def __init__(self, message: str, hint: str = "", *, offset: int, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(message, hint)
        self.offset = offset
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class TableProblem(SparkMirrorError):
    """A table cannot be read, or cannot be looked up by such a key."""


class RegistryProblem(SparkMirrorError):
    """A schema registry did not answer, or refused."""


class FencedError(SparkMirrorError):
    """A newer instance of the same flow has taken over."""


class RunReplaced(FencedError):
    """A later run has replaced this one, and processes that share the flow ran it: their group may begin another."""


class ConfigError(SparkMirrorError):
    """The configuration cannot be used."""

    exit_status = 2

    def __init__(self, message: str, hint: str = "", *, key: str = "", line: int = 0, file: str = "") -> None:
        where = ":".join(part for part in (file, str(line) if line else "") if part)
        super().__init__(f"{where}: {message}" if where else message, hint)
        self.key = key
        self.line = line
        self.file = file


class EnvironmentProblem(SparkMirrorError):
    """This machine lacks something that is needed."""

    exit_status = 3


def describe_unexpected(problem: Exception) -> str:
    """A clause about an exception that is none of these, for a thread that goes on, or tells another, after it."""
    return f"unexpected {type(problem).__name__}: {problem}"
