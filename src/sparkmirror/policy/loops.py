"""Finds flows that would copy a topic back to the cluster it came from (invariant 8). Pure; called when a file is read.

Default naming protects itself: a topic's name tells which clusters it has seen. Identity naming hides that, so any way
back to the source of an identity flow is a loop when the same topic may pass every flow on it. Whether two lists of
regular expressions overlap is judged on the safe side: they do, unless it can be shown that they do not.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparkmirror.model import FlowName
from sparkmirror.policy.filters import NameFilter, is_cycle
from sparkmirror.policy.java_regex import JavaPatternError, compile_java
from sparkmirror.policy.naming import IdentityReplicationPolicy, ReplicationPolicy, is_built_in

_META = frozenset(".[]{}()*+?^$|\\")
_OPTIONAL = frozenset("*?{")
_ORDINARY = "orders"


@dataclass(frozen=True, slots=True)
class Route:
    """What the search needs of a flow."""

    name: FlowName
    policy: ReplicationPolicy
    topics: NameFilter

    @property
    def keeps_names(self) -> bool:
        """Of a class of a person's own, an ordinary name tells."""
        if is_built_in(self.policy):
            return isinstance(self.policy, IdentityReplicationPolicy)
        return self.policy.format_remote_topic(self.name.source, _ORDINARY) == _ORDINARY


def find_loops(routes: Sequence[Route]) -> tuple[tuple[FlowName, ...], ...]:
    """The shortest loop through each flow with identity naming, each loop once, in the order of `routes`."""
    loops: dict[frozenset[FlowName], tuple[FlowName, ...]] = {}
    for route in routes:
        if route.keeps_names and (loop := _way_back(route, routes)):
            loops.setdefault(frozenset(loop), loop)
    return tuple(loops.values())


def _way_back(start: Route, routes: Sequence[Route]) -> tuple[FlowName, ...]:
    queue: deque[tuple[Route, tuple[FlowName, ...]]] = deque([(start, (start.name,))])
    while queue:
        route, path = queue.popleft()
        if route.name.target == start.name.source:
            return path
        for following in routes:
            if following.name not in path and _passes_on(route, following):
                queue.append((following, (*path, following.name)))
    return ()


def _passes_on(first: Route, second: Route) -> bool:
    """Whether a topic that `first` writes may be read by `second`."""
    if first.name.target != second.name.source:
        return False
    return may_overlap(first.topics if first.keeps_names else _renamed(first), second.topics)


def may_copy_on(first: Route, second: Route) -> bool:
    """As `_passes_on`, but for topics whose new name tells `second` that they come from its target."""
    name = first.policy.format_remote_topic(first.name.source, _ORDINARY)
    leads_home = is_built_in(first.policy) and is_cycle(name, second.policy, second.name.target)
    return _passes_on(first, second) and not leads_home


def _renamed(route: Route) -> NameFilter:
    if not is_built_in(route.policy):
        return NameFilter()
    prefix = "".join(f"\\{c}" if c in _META else c for c in route.policy.format_remote_topic(route.name.source, ""))
    return NameFilter(
        tuple(prefix + part for part in _alternatives(route.topics.include)),
        tuple(prefix + part for part in _alternatives(route.topics.exclude)),
    )


def may_overlap(first: NameFilter, second: NameFilter) -> bool:
    """False only when no name can be accepted by both."""
    return any(
        _pair_overlaps(a, b, first, second) for a in _alternatives(first.include) for b in _alternatives(second.include)
    )


def _pair_overlaps(a: str, b: str, first: NameFilter, second: NameFilter) -> bool:
    for expression in (a, b):
        prefix, whole = literal_prefix(expression)
        if whole:
            return first.accepts(prefix) and second.accepts(prefix)
    if a in second.exclude or b in first.exclude:
        return False
    left, right = literal_prefix(a)[0], literal_prefix(b)[0]
    return left.startswith(right) or right.startswith(left)


def _alternatives(expressions: Sequence[str]) -> Iterator[str]:
    """The expressions one by one, simple ones split at `|`; all in one where flags or groups may reach across items."""
    if any("(?" in expression or not _stands_alone(expression) for expression in expressions):
        yield f"(?:{'|'.join(expressions)})"
        return
    for expression in expressions:
        simple = not any(mark in expression for mark in ("(", "[", "\\|", "\\Q"))
        yield from expression.split("|") if simple else (expression,)


def _stands_alone(expression: str) -> bool:
    try:
        compile_java(expression)
    except JavaPatternError:
        return False
    return True


def literal_prefix(expression: str) -> tuple[str, bool]:
    """The text that every match begins with, and whether it is the only match: `a\\.b.*` -> `a.b`, no."""
    text, at = "", 0
    while at < len(expression):
        escaped = expression[at] == "\\"
        char = expression[at + 1 : at + 2] if escaped else expression[at]
        if (escaped and (char.isalnum() or not char)) or (not escaped and char in _META):
            # A quantifier may ask for none of the character before it; an alternative shares nothing with it.
            dropped = text if char not in _OPTIONAL or escaped else text[:-1]
            return ("" if "|" in expression else dropped), False
        text += char
        at += 1 + escaped
    return text, True
