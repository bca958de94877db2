"""Brokers that have just started, or hear of a change later than others: they are asked again."""

from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.errors import ClusterUnreachable, SparkMirrorError
from sparkmirror.kafka.acls import await_acls
from sparkmirror.kafka.answers import AclBinding
from sparkmirror.kafka.errors import RequestRefused
from sparkmirror.kafka.fencing import transactional_id
from sparkmirror.kafka.groups import describe_group, has_members, list_all_groups, list_groups, list_groups_now
from sparkmirror.kafka.known_ids import used_producers, used_tasks
from sparkmirror.kafka.rights import group_rights
from sparkmirror.model import Connector

LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
FIND_COORDINATOR = 10
OURS = Connector.of_dedicated_mode("A")
SILENCE = object()
DENIAL = AclBinding("orders", "LITERAL", "User:*", "*", "WRITE", "DENY")


class Brokers:
    """Two brokers: the second gives `early` answers first, one after the other, and the right one after that."""

    alias = "A"

    def __init__(self, right: Any, early: Collection[Any], patience_seconds: float = 60.0) -> None:
        self.connection = self
        self.settings = SimpleNamespace(request_timeout_seconds=patience_seconds)
        self._right, self._early = right, list(early)
        self.pauses = 0

    def brokers(self) -> dict[int, tuple[str, int]]:
        return {1: ("a", 9092), 2: ("b", 9092)}

    def wait(self, _seconds: float) -> bool:
        self.pauses += 1
        return False

    def ask(self, _make: Callable[[], Any], _doing: str, node_id: int, _seconds: float = 30.0) -> Any:
        answer = self._early.pop(0) if node_id == 2 and self._early else self._right
        if answer is SILENCE:
            raise ClusterUnreachable("nothing came")
        return answer


def transactions(code: int, *tasks: int) -> Any:
    states = [SimpleNamespace(transactional_id=transactional_id(OURS, task), producer_id=70 + task) for task in tasks]
    return SimpleNamespace(error_code=code, transaction_states=states)


def groups(code: int, *names: str) -> Any:
    listed = [
        SimpleNamespace(group_id=name, protocol_type="connect", group_state="Stable", group_type="classic")
        for name in names
    ]
    return SimpleNamespace(error_code=code, groups=listed)


def acls(*bindings: AclBinding) -> Any:
    found = [
        SimpleNamespace(
            resource_name=one.topic,
            pattern_type=3,
            acls=[SimpleNamespace(principal=one.principal, host=one.host, operation=4, permission_type=2)],
        )
        for one in bindings
    ]
    return SimpleNamespace(error_code=0, error_message="", resources=found)


def test_tasks_that_a_starting_coordinator_does_not_name_yet_are_fenced_too() -> None:
    brokers = Brokers(transactions(0, 3, 7), [transactions(LOADING), transactions(NOT_COORDINATOR)])
    assert used_tasks(brokers, OURS) == {3, 7}  # type: ignore[arg-type]
    assert used_producers(brokers, OURS) == {73: 3, 77: 7}  # type: ignore[arg-type]
    assert brokers.pauses == 2


def test_what_a_silent_broker_coordinates_is_waited_for_until_all_have_answered() -> None:
    brokers = Brokers(transactions(0, 3, 7), [SILENCE, SILENCE])
    assert used_tasks(brokers, OURS) == {3, 7}  # type: ignore[arg-type]
    assert brokers.pauses == 2
    listed = Brokers(groups(0, "connect-1"), [SILENCE])
    assert list_groups(listed).keys() == {"connect-1"}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "ask", [list_groups, lambda admin: has_members(admin, "g"), lambda admin: used_tasks(admin, OURS)]
)
def test_a_broker_that_stays_silent_is_named_instead_of_leaving_out_what_it_coordinates(ask: Any) -> None:
    brokers = Brokers(groups(0), [SILENCE] * 9, patience_seconds=0.0)
    brokers._right.transaction_states = []
    with pytest.raises(ClusterUnreachable, match=r"Cluster A: broker 2 \(b:9092\) does not answer while listing"):
        ask(brokers)


def test_a_coordinator_that_never_loads_is_named_instead_of_leaving_a_task_unfenced() -> None:
    brokers = Brokers(transactions(LOADING), [], patience_seconds=0.0)
    with pytest.raises(RequestRefused, match="listing transactional ids failed with COORDINATOR_LOAD_IN_PROGRESS"):
        used_tasks(brokers, OURS)  # type: ignore[arg-type]


def test_a_group_whose_coordinator_is_loading_is_not_taken_for_empty() -> None:
    loading = [groups(LOADING)]
    brokers = Brokers(groups(0), [*loading, groups(0, "A-mm2")])
    assert has_members(brokers, "A-mm2")  # type: ignore[arg-type]
    assert brokers.pauses == 1
    assert not has_members(Brokers(groups(0), loading), "A-mm2")  # type: ignore[arg-type]
    with pytest.raises(RequestRefused, match="COORDINATOR_LOAD_IN_PROGRESS"):
        has_members(Brokers(groups(LOADING), [], patience_seconds=0.0), "A-mm2")  # type: ignore[arg-type]


def test_a_round_over_all_groups_waits_a_moment_for_those_that_are_loading() -> None:
    found = list_groups(Brokers(groups(0, "other"), [groups(LOADING), groups(0, "billing")]))  # type: ignore[arg-type]
    assert sorted(found) == ["billing", "other"]


def test_a_round_that_does_not_wait_any_longer_can_say_whose_groups_are_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sparkmirror.kafka.groups._PATIENCE_SECONDS", 0.0)
    seen = list_groups_now(Brokers(groups(0, "other"), [groups(LOADING)]))  # type: ignore[arg-type]
    assert list(seen.groups) == ["other"]
    assert [str(one.args[0]) for one in seen.missing] == [
        "Cluster A: broker 2 (b:9092) does not list the groups that it coordinates (COORDINATOR_LOAD_IN_PROGRESS)."
    ]
    assert list(list_groups(Brokers(groups(0, "other"), [groups(LOADING)]))) == ["other"]  # type: ignore[arg-type]


def test_who_looks_once_gets_no_list_without_the_groups_of_a_coordinator_that_is_loading() -> None:
    passing = [groups(code) for code in (LOADING, NOT_AVAILABLE, NOT_COORDINATOR) * 3]
    brokers = Brokers(groups(0, "other"), [*passing, groups(0, "billing")])
    assert sorted(list_all_groups(brokers)) == ["billing", "other"]  # type: ignore[arg-type]
    brokers = Brokers(groups(0, "other"), [groups(LOADING)] * 9, patience_seconds=0.0)
    named = r"Cluster A: broker 2 \(b:9092\) does not list the groups that it coordinates \(COORDINATOR_LOAD_IN_PROG"
    with pytest.raises(RequestRefused, match=named):
        list_all_groups(brokers)  # type: ignore[arg-type]
    with pytest.raises(SparkMirrorError, match="listing groups failed with CLUSTER_AUTHORIZATION_FAILED"):
        list_all_groups(Brokers(groups(31), []))  # type: ignore[arg-type]


def test_a_group_that_is_listed_twice_while_it_moves_is_active_where_either_broker_says_so() -> None:
    empty = SimpleNamespace(group_id="g", protocol_type="consumer", group_state="Empty", group_type="classic")
    brokers = Brokers(groups(0, "g"), [SimpleNamespace(error_code=0, groups=[empty])])
    assert has_members(brokers, "g")  # type: ignore[arg-type]


def test_a_change_of_acls_is_waited_for_on_every_broker() -> None:
    brokers = Brokers(acls(DENIAL), [acls(), acls()])
    await_acls(brokers, there=[DENIAL])  # type: ignore[arg-type]
    assert brokers.pauses == 2
    brokers = Brokers(acls(), [acls(DENIAL)])
    await_acls(brokers, gone=[DENIAL])  # type: ignore[arg-type]
    assert brokers.pauses == 1
    with pytest.raises(SparkMirrorError, match="Cluster A: brokers 1, 2 do not go by the changed ACLs yet"):
        await_acls(Brokers(acls(), [], patience_seconds=0.0), there=[DENIAL])  # type: ignore[arg-type]


class Coordinator(Brokers):
    """One that coordinates group `billing`; `early` are its first answers about it, `searches` the codes of the first
    answers to who it is."""

    def __init__(
        self, right: Any, early: Collection[Any], patience_seconds: float = 60.0, searches: Collection[int] = ()
    ) -> None:
        super().__init__(right, early, patience_seconds)
        self._searches = list(searches)

    def ask(  # type: ignore[override]
        self, make: Callable[[], Any], _doing: str, _node_id: int | None = None
    ) -> Any:
        if make().API_KEY == FIND_COORDINATOR:
            code = self._searches.pop(0) if self._searches else 0
            home = SimpleNamespace(key="billing", error_code=code, error_message="", node_id=2)
            return SimpleNamespace(coordinators=[home])
        return self._early.pop(0) if self._early else self._right

    def api_versions(self, _node_id: int | None = None) -> dict[int, tuple[int, int]]:
        return {FIND_COORDINATOR: (0, 4)}


def described(code: int, bits: Collection[int] | None) -> Any:
    """kafka-python gives None for the value that means "nobody said", which comes with every error."""
    one = SimpleNamespace(group_id="billing", error_code=code, authorized_operations=bits)
    return SimpleNamespace(groups=[one])


def test_rights_on_a_group_whose_coordinator_is_loading_are_waited_for_and_not_taken_for_refused() -> None:
    brokers = Coordinator(described(0, {3, 8}), [described(LOADING, None), described(NOT_COORDINATOR, None)])
    assert group_rights(brokers, ["billing"]) == {"billing": {"READ", "DESCRIBE"}}  # type: ignore[arg-type]
    assert brokers.pauses == 2
    brokers = Coordinator(described(LOADING, None), [], patience_seconds=0.0)
    with pytest.raises(RequestRefused, match="permissions on group billing failed with COORDINATOR_LOAD_IN_PROGRESS"):
        group_rights(brokers, ["billing"])  # type: ignore[arg-type]


def test_a_group_that_may_not_be_seen_has_no_rights() -> None:
    brokers = Coordinator(described(30, None), [])
    assert group_rights(brokers, ["billing"]) == {"billing": frozenset()}  # type: ignore[arg-type]


def members(code: int, *names: str) -> Any:
    found = [SimpleNamespace(member_id=name) for name in names]
    return SimpleNamespace(groups=[SimpleNamespace(group_id="billing", error_code=code, members=found)])


def test_the_members_of_a_group_whose_coordinator_is_away_are_waited_for() -> None:
    early = [members(LOADING), members(NOT_COORDINATOR)]
    brokers = Coordinator(members(0, "m"), early, searches=[NOT_AVAILABLE, NOT_AVAILABLE])
    assert [one.member_id for one in describe_group(brokers, "billing")] == ["m"]  # type: ignore[arg-type]
    assert brokers.pauses == 4


@pytest.mark.parametrize(
    ("brokers", "said"),
    [
        (Coordinator(members(0, "m"), [], 0.0, [NOT_AVAILABLE] * 9), "COORDINATOR_NOT_AVAILABLE"),
        (Coordinator(members(0, "m"), [], searches=[30]), "GROUP_AUTHORIZATION_FAILED"),
        (Coordinator(members(LOADING), [], 0.0), "describing group billing failed with COORDINATOR_LOAD_IN_PROGRESS"),
        (Coordinator(members(30), []), "describing group billing failed with GROUP_AUTHORIZATION_FAILED"),
    ],
)
def test_a_group_that_is_not_described_is_not_taken_for_one_without_members(brokers: Coordinator, said: str) -> None:
    with pytest.raises(SparkMirrorError, match=said):
        describe_group(brokers, "billing")  # type: ignore[arg-type]


@pytest.mark.parametrize("code", [0, 69])
def test_a_group_that_does_not_exist_has_no_members(code: int) -> None:
    assert describe_group(Coordinator(members(code), []), "billing") == []  # type: ignore[arg-type]
