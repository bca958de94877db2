"""The page's own log: the last failures, repeats counted."""

import logging

from sparkmirror.web.failures import FailureLog


def log_with(*told: tuple[int, str]) -> FailureLog:
    kept = FailureLog()
    logger = logging.Logger("test")
    logger.addHandler(kept)
    for level, sentence in told:
        logger.log(level, "A->B: %s", sentence)
    return kept


def test_warnings_and_errors_are_kept_the_latest_first_with_their_repeats_counted() -> None:
    kept = log_with(
        (logging.WARNING, "one"), (logging.INFO, "fine"), (logging.ERROR, "two"), (logging.WARNING, "one"),
    ).latest()  # fmt: skip
    assert [(one["level"], one["text"], one["times"]) for one in kept] == [
        ("WARNING", "A->B: one", 2),
        ("ERROR", "A->B: two", 1),
    ]
    assert kept[0]["first_ms"] <= kept[0]["last_ms"]


def test_the_oldest_failures_are_dropped_when_the_list_is_full() -> None:
    kept = log_with(*((logging.WARNING, str(number)) for number in range(300))).latest()
    assert (len(kept), kept[0]["text"], kept[-1]["text"]) == (200, "A->B: 299", "A->B: 100")
