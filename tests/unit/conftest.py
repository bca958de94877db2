"""What each unit test finds as it was, whatever ran before it in the same process."""

from collections.abc import Iterator

import pytest

from sparkmirror.logs.handlers import log


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """A test that sets up `logs.handlers` would take the project's log over for all tests after it."""
    handlers, level, propagate = list(log.handlers), log.level, log.propagate
    yield
    log.handlers[:], log.propagate = handlers, propagate
    log.setLevel(level)
