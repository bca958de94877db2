"""ACLs of a simulated cluster. Its controller keeps them, and each broker learns of a change by itself, in order.

Source of the rules: org.apache.kafka.metadata.authorizer (StandardAuthorizer, AclControlManager) and
kafka.server.AclApis of Apache Kafka 4.3.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kafka.protocol.admin import CreateAclsResponse, DeleteAclsResponse, DescribeAclsResponse
from tests.simulation.scheduler import World

DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31
ACL_APIS = frozenset({DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS})
_NO_ERROR, _SECURITY_DISABLED = 0, 54
_ANY, _TOPIC, _LITERAL, _WRITE, _DENY = 1, 2, 3, 4, 2
_DELAY_SECONDS = (0.001, 0.03, 0.03, 1.0)


class Acl(NamedTuple):
    """Fields in the order of the requests; numbers are Kafka's."""

    kind: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


class Acls:
    """`is_on` says that the cluster has an authorizer."""

    def __init__(self, world: World, nodes: Iterable[int], frozen_until: Callable[[int], float]) -> None:
        self.is_on = False
        self._world = world
        self._frozen_until = frozen_until
        self._all: dict[Acl, None] = {}
        self._known: dict[int, dict[Acl, None]] = {node: {} for node in nodes}
        self._learns_at: dict[int, float] = dict.fromkeys(self._known, 0.0)
        self.removed_at = 0.0
        """When all brokers know of all that was removed."""

    def denies_writes(self, node: int, topic: str) -> bool:
        """Whether this broker refuses the records of all but super users."""
        return any(_is_fence(one, topic) for one in self._known[node])

    def has_fence(self, topic: str) -> bool:
        """Whether it stands, whatever brokers know by now."""
        return any(_is_fence(one, topic) for one in self._all)

    def clear(self) -> None:
        """A person removes all."""
        for one in list(self._all):
            self._delete(one)

    def handle(self, api: int, node: int, request: Any) -> Any:
        if api == DESCRIBE_ACLS:
            return self._describe(node, request)
        return self._answer_create(request) if api == CREATE_ACLS else self._answer_delete(request)

    def _describe(self, node: int, request: Any) -> Any:
        if not self.is_on:
            return DescribeAclsResponse(
                throttle_time_ms=0, error_code=_SECURITY_DISABLED, resources=[],
                error_message="No Authorizer is configured on the broker",
            )  # fmt: skip
        kind = DescribeAclsResponse.DescribeAclsResource
        resources: dict[tuple[int, str, int], list[Any]] = {}
        for one in self._known[node]:
            if _matches(one, _wanted(request)):
                resources.setdefault(one[:3], []).append(
                    kind.AclDescription(
                        principal=one.principal, host=one.host, operation=one.operation,
                        permission_type=one.permission,
                    )
                )  # fmt: skip
        told = [
            kind(resource_type=key[0], resource_name=key[1], pattern_type=key[2], acls=acls)
            for key, acls in resources.items()
        ]
        return DescribeAclsResponse(throttle_time_ms=0, error_code=_NO_ERROR, error_message=None, resources=told)

    def _answer_create(self, request: Any) -> Any:
        kind = CreateAclsResponse.AclCreationResult
        for one in request.creations if self.is_on else ():
            self._create(
                Acl(one.resource_type, one.resource_name, int(one.resource_pattern_type), one.principal, one.host,
                    int(one.operation), int(one.permission_type))
            )  # fmt: skip
        error, message = self._refusal
        told = [kind(error_code=error, error_message=message) for _ in request.creations]
        return CreateAclsResponse(throttle_time_ms=0, results=told)

    def _answer_delete(self, request: Any) -> Any:
        kind = DeleteAclsResponse.DeleteAclsFilterResult
        error, message = self._refusal
        told = []
        for wanted in request.filters:
            found = [one for one in self._all if _matches(one, _wanted(wanted))] if self.is_on else []
            for one in found:
                self._delete(one)
            matching = [
                kind.DeleteAclsMatchingAcl(
                    error_code=_NO_ERROR, error_message=None, resource_type=one.kind, resource_name=one.name,
                    pattern_type=one.pattern, principal=one.principal, host=one.host, operation=one.operation,
                    permission_type=one.permission,
                )
                for one in found
            ]  # fmt: skip
            told.append(kind(error_code=error, error_message=message, matching_acls=matching))
        return DeleteAclsResponse(throttle_time_ms=0, filter_results=told)

    @property
    def _refusal(self) -> tuple[int, str | None]:
        if self.is_on:
            return _NO_ERROR, None
        return _SECURITY_DISABLED, "No Authorizer is configured."

    def _create(self, one: Acl) -> None:
        self._all[one] = None
        self._spread(lambda known: known.update({one: None}))

    def _delete(self, one: Acl) -> None:
        self._all.pop(one, None)
        self._spread(lambda known: known.pop(one, None))
        self.removed_at = max(self._learns_at.values())

    def _spread(self, change: Callable[[dict[Acl, None]], object]) -> None:
        """One broker a moment later than another; one that stands still once it goes on."""
        world = self._world
        for node, known in self._known.items():
            delay = world.random.choice(_DELAY_SECONDS) * world.random.random()
            at = max(self._learns_at[node], world.now + delay, self._frozen_until(node))
            self._learns_at[node] = at
            world.at(at, lambda known=known: change(known))


def _is_fence(one: Acl, topic: str) -> bool:
    fields = (one.kind, one.name, one.pattern, one.principal, one.operation, one.permission)
    return fields == (_TOPIC, topic, _LITERAL, "User:*", _WRITE, _DENY)


def _wanted(request: Any) -> tuple[Any, ...]:
    return (
        request.resource_type_filter, request.resource_name_filter, int(request.pattern_type_filter),
        request.principal_filter, request.host_filter, int(request.operation), int(request.permission_type),
    )  # fmt: skip


def _matches(one: Acl, wanted: tuple[Any, ...]) -> bool:
    """What is None or ANY in a filter matches all."""
    return all(
        want is None or have == want or (want == _ANY and not isinstance(have, str))
        for have, want in zip(one, wanted, strict=True)
    )
