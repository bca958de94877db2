"""What `sparkmirror failover` and `failback` print for people; pure."""

from collections.abc import Sequence

from sparkmirror.clock import show_age
from sparkmirror.operations.failback import Divergence, HomePlace
from sparkmirror.operations.failover import Readiness
from sparkmirror.views.table import Page, make_table

_SHOWN_MAX = 10


def render_readiness(found: Readiness) -> Page:
    """The answer to "what if we failed over now", for one flow."""
    before, after = ([f"  {line}" for line in lines] for lines in (_loss(found), _differences(found)))
    return [f"{found.flow}, if it failed over now:", *before, *_groups(found), *after]


def _loss(found: Readiness) -> list[str]:
    if not found.source_answers:
        heard = "never" if found.heard_seconds is None else f"{show_age(found.heard_seconds)} ago"
        return [
            f"cluster {found.flow.source} does not answer: what it has beyond the mirror is not known",
            f"the mirror stored its last position {heard}",
        ]
    if not found.behind and not found.unknown:
        return ["nothing would be lost: all is mirrored"]
    return [*_unknown(found), *_behind(found)]


def _unknown(found: Readiness) -> list[str]:
    if not found.unknown:
        return []
    lines = [f"of {len(found.unknown)} partitions nobody knows what would be lost if {found.flow.source} is gone:"]
    lines += [f"  {where}: {reason}" for where, reason in sorted(found.unknown.items())[:_SHOWN_MAX]]
    return [*lines, *_more(len(found.unknown))]


def _behind(found: Readiness) -> list[str]:
    if not found.behind:
        return []
    records, oldest = sum(one.records for one in found.behind), show_age(found.oldest_seconds)
    also = "of the others " if found.unknown else ""
    lines = [f"{also}{records} records would be lost if {found.flow.source} is gone, the oldest {oldest} old:"]
    for one in found.behind[:_SHOWN_MAX]:
        lines.append(f"  {one.partition}: from {one.position} to {one.end}, {one.records} records")
    return [*lines, *_more(len(found.behind))]


def _groups(found: Readiness) -> Page:
    if not found.groups():
        return ["  no group has committed offsets of mirrored topics"]
    rows = [
        (
            group,
            _members(found, group),
            _count(found.repeats(group, planned=True)),
            _count(found.repeats(group, planned=False)),
            len({place for place in found.untranslated if place.group == group}) or "",
        )
        for group in found.groups()
    ]
    titles = ("group", "members on", "again, planned", "again, source lost", "not translated")
    return [make_table(titles, rows, indent=2)]


def _members(found: Readiness, group: str) -> str:
    names = ((found.flow.source, found.active_on_source), (found.flow.target, found.active_on_target))
    return ", ".join(alias for alias, active in names if group in active) or "neither"


def _count(repeats: int | None) -> str:
    return "unknown" if repeats is None else str(repeats)


def _differences(found: Readiness) -> list[str]:
    if not found.differences:
        return ["topics, settings and ACLs are in step"] if found.source_answers else []
    return [
        "not in step yet:",
        *(f"  {sentence}" for sentence in found.differences[:_SHOWN_MAX]),
        *_more(len(found.differences)),
    ]


def render_divergence(source: str, found: Sequence[Divergence]) -> list[str]:
    """What only the old primary has."""
    if not found:
        return [f"{source} has nothing that was not mirrored"]
    lines = [f"{sum(one.records for one in found)} records are on {source} only:"]
    lines += [f"  {one.partition}: from {one.first} to {one.end}, {one.records} records" for one in found[:_SHOWN_MAX]]
    return [*lines, *_more(len(found))]


def render_home(target: str, places: Sequence[HomePlace]) -> Page:
    """Where groups go on when they return."""
    if not places:
        return [f"no group on {target} has read mirrored topics"]
    rows = [
        (one.group, one.remote, one.stands, one.home, "none" if one.offset is None else one.offset,
         "yes" if one.exact else "not beyond")
        for one in places
    ]  # fmt: skip
    return [make_table(("group", "stands at", "offset", "returns to", "offset", "exact"), rows)]


def _more(count: int) -> list[str]:
    return [f"  and {count - _SHOWN_MAX} more"] if count > _SHOWN_MAX else []
