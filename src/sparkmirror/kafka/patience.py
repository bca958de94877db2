"""How long to go on where nothing listens at a cluster's addresses. Set by `cli.file`, read by `kafka.connection`."""

from collections.abc import Iterator
from contextlib import contextmanager

_QUESTION_SECONDS = 0.4


class Patience:
    """For this process: a broker that is being started may come while a mirror waits, a person does not wait."""

    absent_seconds = float("inf")


@contextmanager
def impatient() -> Iterator[None]:
    """While a person waits for an answer: ports that refuse and hosts that nobody knows end a bootstrap soon."""
    before, Patience.absent_seconds = Patience.absent_seconds, _QUESTION_SECONDS
    try:
        yield
    finally:
        Patience.absent_seconds = before
