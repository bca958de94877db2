"""What each unit test finds as it was, whatever ran before it in the same process."""

from collections.abc import Iterator

import pytest

from sparkmirror.logs.handlers import log


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """Whoever begins to speak (`logs.handlers`) takes the project's log over, for good."""
    handlers, level, propagate = list(log.handlers), log.level, log.propagate
    yield
    log.handlers[:], log.propagate = handlers, propagate
    log.setLevel(level)
