"""Fixtures of all tests. Brokers start once a session (a worker, under xdist): tests keep apart by topic names."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import settings
from tests import programs
from tests.lanes import TwoLanesForClusters

from sparkmirror.testing.kafka import KafkaCluster
from sparkmirror.testing.proxy import LongLink

FAR = LongLink(round_trip_seconds=0.06, window_bytes=1 << 20)

programs.use()
# How long an example takes says how busy the machine is, and nothing about the code. `.ci/run` asks for the second one:
# whether a commit lands is no matter of chance.
settings.register_profile("mirror", deadline=None)
settings.register_profile("same-examples", deadline=None, derandomize=True)
settings.load_profile("mirror")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> TwoLanesForClusters:
    return TwoLanesForClusters(config, log)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The line before the last names the programs that tests were skipped for."""
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())]
    names = {reason.split(f" {programs.MISSING}")[0].split()[-1] for reason in reasons if programs.MISSING in reason}
    if names:
        terminalreporter.write_line(f"not tested, for want of programs: {', '.join(sorted(names))}", yellow=True)


@pytest.fixture(scope="session")
def source_cluster() -> Iterator[KafkaCluster]:
    """One broker, shared by all tests of the session: use `unique` names, change nothing cluster-wide.

    `bootstrap_servers_far` reaches it over a long link.
    """
    with KafkaCluster(name="source", far=FAR) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def target_cluster() -> Iterator[KafkaCluster]:
    """As source_cluster, the other end."""
    with KafkaCluster(name="target", far=FAR) as cluster:
        yield cluster


@pytest.fixture
def unique() -> Callable[[str], str]:
    """`unique("orders")` is a name no other test has: for topics, groups, transactional ids."""
    return lambda name: f"{name}-{uuid4().hex[:10]}"
