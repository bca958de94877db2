"""Refuses partitions of a flow that keeps offsets, by name and with what to do; pure. Called by
`planning.offset_starts`."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Final

from sparkmirror.control.assignment import Assigned

REBUILD: Final = "delete the topic on the target, and the mirror makes it again from the beginning"
_ONE_ALONE: Final = "leave all but one of them out"


def refuse(item: Assigned, reason: str, what_to_do: str = REBUILD) -> Assigned:
    """`reason` is a clause for people."""
    return replace(item, unknown=f"offsets cannot be kept: {reason}; {what_to_do}", restarted_from=None, epochs=())


def refuse_shared(
    items: Iterable[Assigned], topics: Collection[str], remote_topic: Callable[[str], str]
) -> list[Assigned]:
    """The items; refused are those of topics of the source that a naming policy puts into one of the target."""
    found: dict[str, list[str]] = {}
    for topic in sorted(topics):
        found.setdefault(remote_topic(topic), []).append(topic)
    reasons = {
        topic: f"{' and '.join(names[:3])} of the source go to one topic of the target, {remote}, by the naming policy"
        for remote, names in found.items()
        for topic in names
        if len(names) > 1
    }
    return [
        refuse(item, reasons[item.partition.topic], _ONE_ALONE)
        if item.partition.topic in reasons and not item.unknown
        else item
        for item in items
    ]
