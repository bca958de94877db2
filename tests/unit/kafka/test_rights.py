"""Rights on groups, as brokers tell them: a cluster's first group takes a moment, and some are not ours to see."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from sparkmirror.kafka.rights import group_rights

COORDINATOR_NOT_AVAILABLE, GROUP_AUTHORIZATION_FAILED = 15, 30
READ, DESCRIBE = 3, 8


class Brokers:
    """Answers FindCoordinator by `codes` until they are used up, and DescribeGroups with Read and Describe."""

    alias = "backup"
    settings = SimpleNamespace(request_timeout_seconds=5.0)

    def __init__(self, *codes: int) -> None:
        self.connection = self
        self.codes = list(codes)
        self.pauses = 0

    def api_versions(self) -> dict[int, tuple[int, int]]:
        return {10: (0, 5)}

    def wait(self, _seconds: float) -> bool:
        self.pauses += 1
        return False

    def ask(self, make: Callable[[], Any], _doing: str, _node_id: int = 0) -> Any:
        request = make()
        if hasattr(request, "coordinator_keys"):
            found = [
                SimpleNamespace(node_id=1, error_code=self.codes.pop(0) if self.codes else 0, error_message="")
                for _ in request.coordinator_keys
            ]
            return SimpleNamespace(coordinators=found)
        rights = [READ, DESCRIBE]
        groups = [SimpleNamespace(group_id=name, error_code=0, authorized_operations=rights) for name in request.groups]
        return SimpleNamespace(groups=groups)


def test_the_coordinator_of_a_first_group_is_waited_for() -> None:
    brokers = Brokers(COORDINATOR_NOT_AVAILABLE, COORDINATOR_NOT_AVAILABLE)
    assert group_rights(brokers, ["billing"]) == {"billing": {"READ", "DESCRIBE"}}  # type: ignore[arg-type]
    assert brokers.pauses == 1


def test_a_group_that_is_not_ours_to_see_has_no_rights_and_keeps_nobody_from_the_others() -> None:
    brokers = Brokers(GROUP_AUTHORIZATION_FAILED)
    assert group_rights(brokers, ["billing", "fraud"]) == {"fraud": {"READ", "DESCRIBE"}}  # type: ignore[arg-type]
    assert brokers.pauses == 0
