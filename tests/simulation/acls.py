"""ACLs of a simulated cluster. Its controller keeps them, and each broker learns of a change by itself, in order.

Source of the rules: org.apache.kafka.metadata.authorizer (StandardAuthorizer, AclControlManager) and
kafka.server.AclApis of Apache Kafka 4.3.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kafka.protocol.admin import CreateAclsResponse, DeleteAclsResponse, DescribeAclsResponse
from tests.simulation.scheduler import World

DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31
ACL_APIS = {DESCRIBE_ACLS: "DescribeAcls", CREATE_ACLS: "CreateAcls", DELETE_ACLS: "DeleteAcls"}
_NO_ERROR, _INVALID_REQUEST, _SECURITY_DISABLED = 0, 42, 54
_ANY, _TOPIC = 1, 2
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
ALL, READ, WRITE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 2, 3, 4, 6, 7, 8, 10, 11
_IMPLIED = {DESCRIBE: (READ, WRITE, DELETE, ALTER), DESCRIBE_CONFIGS: (ALTER_CONFIGS,)}
_EVERYBODY, _EVERYWHERE = "User:*", "*"
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

    def covers(self, topic: str) -> bool:
        if self.pattern == PREFIXED:
            return topic.startswith(self.name)
        return self.name in (topic, "*")


class Asked(NamedTuple):
    """A request that is about to be answered: by which broker, and what it adds or removes."""

    api: int
    node: int
    creations: tuple[Acl, ...] = ()
    deletions: tuple[Acl, ...] = ()


def is_allowed(bindings: Iterable[Acl], principal: str, host: str, topic: str, operation: int) -> bool:
    """As StandardAuthorizer decides where nobody is a super user, and nothing is allowed if no binding is found."""
    own = [
        one
        for one in bindings
        if one.covers(topic) and one.principal in (principal, _EVERYBODY) and one.host in (host, _EVERYWHERE)
    ]
    if any(one.permission == DENY and one.operation in (operation, ALL) for one in own):
        return False
    allowing = (operation, ALL, *_IMPLIED.get(operation, ()))
    return any(one.permission == ALLOW and one.operation in allowing for one in own)


class Acls:
    """`is_on` says that the cluster has an authorizer. Until `refuses_until` it takes no change of `refused`, a
    permission, or of any where that is 0. `watchers` hear of each request just before it is answered."""

    def __init__(self, world: World, nodes: Iterable[int], frozen_until: Callable[[int], float]) -> None:
        self.is_on = False
        self._world = world
        self._frozen_until = frozen_until
        self._all: dict[Acl, None] = {}
        self._known: dict[int, dict[Acl, None]] = {node: {} for node in nodes}
        self._learns_at: dict[int, float] = dict.fromkeys(self._known, 0.0)
        self.refuses_until, self.refused = 0.0, 0
        self.late_until = 0.0
        """Until when no broker learns of a change."""
        self.watchers: list[Callable[[Asked], None]] = []
        self.unfenced_at = 0.0
        """When all brokers know of all fences that were removed."""

    def denies_writes(self, node: int, topic: str) -> bool:
        """Whether this broker refuses the records of all but super users."""
        return any(_is_fence(one, topic) for one in self._known[node])

    def has_fence(self, topic: str) -> bool:
        """Whether it stands, whatever brokers know by now."""
        return any(_is_fence(one, topic) for one in self._all)

    @property
    def bindings(self) -> frozenset[Acl]:
        """Whatever brokers know by now."""
        return frozenset(self._all)

    @property
    def known_at(self) -> float:
        """When all brokers know of all changes so far."""
        return max(self._learns_at.values())

    def known(self, node: int) -> frozenset[Acl]:
        return frozenset(self._known[node])

    def lift_fence(self, topic: str) -> None:
        """A person removes it."""
        for one in [one for one in self._all if _is_fence(one, topic)]:
            self.remove(one)

    def handle(self, api: int, node: int, request: Any) -> Any:
        if api == DESCRIBE_ACLS:
            self._tell(Asked(api, node))
            return self._describe(node, request)
        return self._answer_create(node, request) if api == CREATE_ACLS else self._answer_delete(node, request)

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

    def _tell(self, asked: Asked) -> None:
        for watch in self.watchers:
            watch(asked)

    def _answer_create(self, node: int, request: Any) -> Any:
        kind = CreateAclsResponse.AclCreationResult
        wanted = [
            Acl(one.resource_type, one.resource_name, int(one.resource_pattern_type), one.principal, one.host,
                int(one.operation), int(one.permission_type))
            for one in request.creations
        ]  # fmt: skip
        refusals = [self._refusal_of(one) for one in wanted]
        taken = tuple(one for one, (error, _) in zip(wanted, refusals, strict=True) if not error)
        self._tell(Asked(CREATE_ACLS, node, creations=taken))
        for one in taken:
            self.add(one)
        told = [kind(error_code=error, error_message=message) for error, message in refusals]
        return CreateAclsResponse(throttle_time_ms=0, results=told)

    def _answer_delete(self, node: int, request: Any) -> Any:
        kind = DeleteAclsResponse.DeleteAclsFilterResult
        told = []
        for wanted in request.filters:
            found = [one for one in self._all if _matches(one, _wanted(wanted))] if self.is_on else []
            error, message = next((no for one in found if (no := self._refusal_of(one))[0]), self._refusal)
            if error:
                found = []
            self._tell(Asked(DELETE_ACLS, node, deletions=tuple(found)))
            for one in found:
                self.remove(one)
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

    def _refusal_of(self, one: Acl) -> tuple[int, str | None]:
        if self.is_on and self._world.now < self.refuses_until and self.refused in (0, one.permission):
            return _INVALID_REQUEST, "The authorizer does not take it."
        return self._refusal

    @property
    def _refusal(self) -> tuple[int, str | None]:
        if self.is_on:
            return _NO_ERROR, None
        return _SECURITY_DISABLED, "No Authorizer is configured."

    def add(self, one: Acl) -> None:
        self._all[one] = None
        self._spread(lambda known: known.update({one: None}))

    def remove(self, one: Acl) -> None:
        self._all.pop(one, None)
        self._spread(lambda known: known.pop(one, None))
        if is_fence(one):
            self.unfenced_at = self.known_at

    def _spread(self, change: Callable[[dict[Acl, None]], object]) -> None:
        """One broker a moment later than another; one that stands still once it goes on."""
        world = self._world
        for node, known in self._known.items():
            delay = world.random.choice(_DELAY_SECONDS) * world.random.random()
            at = max(self._learns_at[node], world.now + delay, self._frozen_until(node), self.late_until)
            self._learns_at[node] = at
            world.at(at, lambda known=known: change(known))


def is_fence(one: Acl) -> bool:
    """Of whatever topic."""
    return _is_fence(one, one.name)


def _is_fence(one: Acl, topic: str) -> bool:
    fields = (one.kind, one.name, one.pattern, one.principal, one.operation, one.permission)
    return fields == (_TOPIC, topic, LITERAL, _EVERYBODY, WRITE, DENY)


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
