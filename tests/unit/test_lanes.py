"""How the tests of a whole run are dealt out to two workers."""

import pytest
from tests.lanes import lane_of, next_file

ADMIN, LEDGER = "tests/brokers/test_admin.py", "tests/faults/test_unreadable_ledger.py"
ONCE, LIVE = "tests/scenarios/test_once.py", "tests/scenarios/test_live.py"
CLOCK, TOPICS = "tests/unit/test_clock.py", "tests/unit/sync/test_topics.py"


@pytest.mark.parametrize(
    ("waiting", "for_scenarios", "for_others"),
    [
        ([CLOCK, ADMIN, ONCE, LEDGER, LIVE], ONCE, ADMIN),
        ([CLOCK, ADMIN, LEDGER], LEDGER, ADMIN),
        ([CLOCK, ONCE, LIVE], ONCE, LIVE),
        ([CLOCK, TOPICS], CLOCK, CLOCK),
    ],
)
def test_each_worker_has_a_lane_helps_in_the_other_from_its_end_and_then_takes_unit_tests(
    waiting: list[str], for_scenarios: str, for_others: str
) -> None:
    assert next_file(waiting, lane_of(ONCE)) == for_scenarios
    assert next_file(waiting, lane_of(ADMIN)) == for_others
