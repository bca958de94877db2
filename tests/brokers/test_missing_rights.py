"""Without each row of the table of permissions in turn: `doctor` names it, and it alone.

Whole rows in `make test`, each operation of each row in `make faults`.
"""

import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from tests.oracle import DEADLINE_SECONDS_LEAST
from tests.scenarios.data import grow_topic, make_topics
from tests.strict import IMPLIED_BY, NOWHERE, Scene, strict_config, strict_scene, without

from sparkmirror.kafka.clients import open_admin
from sparkmirror.ledger.topics import ledger_topics
from sparkmirror.operations.acl_commands import list_all
from sparkmirror.operations.cluster_checks import check_clusters
from sparkmirror.operations.grants import Grant
from sparkmirror.sync.flow import topic_rules
from sparkmirror.sync.topic_job import TopicSync
from sparkmirror.sync.topics import CreateTopic
from sparkmirror.views.findings import Finding, Level

ALL = (
    "sync.group.offsets.enabled = true",
    "progress.group.id = progress",
    "canary.interval.seconds = 1",
    "preserve.offsets.enabled = true",
    "preserve.offsets.filler = write-markers",
)
"""What the file may ask for beside the defaults."""

ROWS = list(list_all(strict_config(NOWHERE, NOWHERE, ALL)[1]))
INTERNAL = (*ledger_topics("A"), "A.checkpoints.internal")
PROBES = "sparkmirror-canary-backup"
OTHER_LINES = ("clock", "disk", "reachable", "release", "internal topics")


def cases(*, creating: bool) -> Sequence[object]:
    """Each operation of each row, but for those that another one implies which is granted on the same resources."""
    return [
        pytest.param(number, one, id=f"{row.alias}-{row.feature}-{one}".replace(" ", "_"))
        for number, row in enumerate(ROWS)
        for one in row.operations
        if (one == "CREATE") is creating and not IMPLIED_BY.get(one, set()) & granted_with(row)
    ]


def granted_with(row: Grant) -> set[str]:
    """On its resources, by whichever row."""
    rows = [one for one in ROWS if (one.alias, one.resources) == (row.alias, row.resources)]
    return {one for other in rows for one in other.operations}


@pytest.fixture(scope="module")
def empty() -> Iterator[Scene]:
    """Nothing that a mirror makes is there. Tests that want it so come first."""
    with strict_scene(*ALL) as scene:
        yield scene


@pytest.fixture(scope="module")
def probed(empty: Scene) -> Scene:
    """The topic of probes alone is there, so that its remote topic is wanted."""
    make_topics(empty.admins["A"], {PROBES: 1})
    return empty


@pytest.fixture(scope="module")
def made(probed: Scene) -> Scene:
    """All is there that a mirror makes, and one remote topic has fewer partitions than its origin."""
    remote = ("A.orders", "A.orders-eu", f"A.{PROBES}")
    both = ("heartbeats", "mm2-sparkmirror-clock.internal")
    make_topics(probed.admins["backup"], dict.fromkeys((*INTERNAL, *remote, *both), 1))
    make_topics(probed.admins["A"], dict.fromkeys((*both, "mm2-offset-syncs.backup.internal"), 1))
    grow_topic(probed.admins["A"], "orders-eu", 2)
    probed.commit(0)
    return probed


def complaints(scene: Scene) -> list[Finding]:
    found = check_clusters(scene.config.flows, scene.config.heartbeats)
    return [one for one in found if one.level is not Level.OK and one.what not in OTHER_LINES]


def assert_told(scene: Scene, lost: Grant) -> None:
    """A broker knows of an ACL a moment after the controller; what the case before took away is back by then."""
    deadline = time.monotonic() + DEADLINE_SECONDS_LEAST
    scene.forbid(lost)
    try:
        while not _are_about(told := complaints(scene), lost):
            assert time.monotonic() < deadline, f"without {lost}, doctor says {told}"
    finally:
        scene.allow(lost)


def _are_about(told: Sequence[Finding], lost: Grant) -> bool:
    return bool(told) and all(_is_about(one, lost) for one in told)


def _is_about(told: Finding, lost: Grant) -> bool:
    said = f"{told.said}. {told.hint}"
    names = [one.name for one in lost.resources]
    return (
        f"principal that {lost.alias}.* of the file logs in as" in told.hint
        and any(one in told.hint for one in lost.operations)
        and any(name in said for name in names)
    )


@pytest.mark.parametrize(("row", "operation"), cases(creating=True))
def test_what_may_not_be_created_is_reported(request: pytest.FixtureRequest, row: int, operation: str) -> None:
    is_of_probes = ROWS[row].resources[0].name == f"A.{PROBES}"
    empty: Scene = request.getfixturevalue("probed" if is_of_probes else "empty")
    lost = without(empty.grants[row], operation)
    assert_told(empty, lost)


@pytest.mark.long
@pytest.mark.parametrize(("row", "operation"), cases(creating=False))
def test_what_is_not_granted_on_what_is_there_is_reported(made: Scene, row: int, operation: str) -> None:
    lost = without(made.grants[row], operation)
    assert_told(made, lost)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(number, id=f"{row.alias}-{row.feature}".replace(" ", "_"))
        for number, row in enumerate(ROWS)
        if row.operations != ("CREATE",)
    ],
)
def test_a_whole_row_that_is_missing_is_reported(made: Scene, row: int) -> None:
    """Topics that may not even be seen are not taken for absent ones."""
    lost = made.grants[row]
    assert_told(made, lost)


def test_with_slots_for_all_tasks_nothing_is_logged(made: Scene) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS_LEAST
    while told := complaints(made):
        assert time.monotonic() < deadline, told


def test_settings_that_could_not_be_read_are_read_once_they_may_be(made: Scene) -> None:
    """Neither list of topics tells that anything has changed."""
    flow = made.config.flows[0]
    row = next(one for one in made.grants if one.feature == "copying their settings")
    with open_admin(flow.source, "test") as source, open_admin(flow.target, "test") as target:
        job = TopicSync(source, target, topic_rules(flow))
        job.apply(job.plan())
        await_true(lambda: not job.plan().changes)
        made.forbid(row)
        try:
            await_true(lambda: not source.describe_configs(["orders"]))
            make_topics(made.admins["A"], {"orders-late": 1})
            await_true(lambda: any("settings of orders-late could not be read" in one for one in job.plan().warnings))
        finally:
            made.allow(row)
        await_true(lambda: "A.orders-late" in {one.name for one in job.plan().changes if isinstance(one, CreateTopic)})


def await_true(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS_LEAST
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
