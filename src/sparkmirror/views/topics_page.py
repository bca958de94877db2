"""The topics of a flow: their remote topics, and why some are not mirrored; pure. `operations.snapshots` reads them,
`cli.listings` prints them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sparkmirror.model import FlowName, Topic
from sparkmirror.policy.filters import LeftOut
from sparkmirror.views.table import Page, make_table

_SETTINGS_NAMED_MAX = 3


class TopicState(StrEnum):
    """The state of a topic that the flow selects; any other topic has a reason of `LeftOut`.

    MISSING: the remote topic does not exist yet. SMALLER: it has fewer partitions than the source topic. A running
    mirror ends both at its next refresh. TAKEN: another source topic has the same remote name. GONE: the source topic
    of a remote topic was deleted.
    """

    MIRRORED = "MIRRORED"
    MISSING = "MISSING"
    SMALLER = "SMALLER"
    TAKEN = "TAKEN"
    GONE = "GONE"


@dataclass(frozen=True, slots=True)
class TopicLine:
    """A topic of the source and its remote topic. The number of partitions is None for a topic that does not exist.

    `settings` are the keys of topic settings that differ between the two; None where they were not compared.
    """

    topic: str
    remote: str
    state: TopicState | LeftOut
    source_partitions: int | None
    target_partitions: int | None
    settings: tuple[str, ...] | None = None
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "remote_topic": self.remote,
            "state": self.state.value,
            "source_partitions": self.source_partitions,
            "target_partitions": self.target_partitions,
            "settings_that_differ": None if self.settings is None else list(self.settings),
            "reason": self.reason,
        }


def list_lines(
    source: Mapping[str, Topic],
    target: Mapping[str, Topic],
    left_out: Mapping[str, tuple[LeftOut, str]],
    remote_names: Mapping[str, str],
    settings: Mapping[str, Sequence[str]],
) -> list[TopicLine]:
    """A line for each topic of the source, in order.

    `left_out` gives state and reason of topics that are not mirrored, `remote_names` the names of the others on the
    target, `settings` the keys that differ, for the source topics that were compared.
    """
    lines: list[TopicLine] = []
    taken: dict[str, str] = {}
    for name, topic in sorted(source.items()):
        if name in left_out:
            lines.append(TopicLine(name, "", left_out[name][0], topic.partitions, None, None, left_out[name][1]))
            continue
        remote = remote_names[name]
        there = target.get(remote)
        state, reason = _state(topic, there)
        if (first := taken.setdefault(remote, name)) != name:
            state, reason = TopicState.TAKEN, f"{first} is mirrored to this name"
        differing = tuple(settings[name]) if name in settings else None
        lines.append(
            TopicLine(name, remote, state, topic.partitions, there.partitions if there else None, differing, reason)
        )
    return lines


def list_orphans(target: Mapping[str, Topic], origins: Mapping[str, str]) -> list[TopicLine]:
    """A line for each remote topic whose source topic no longer exists; `origins` maps remote to source names."""
    reason = "the source has no such topic any more"
    return [
        TopicLine(topic, remote, TopicState.GONE, None, target[remote].partitions, None, reason)
        for remote, topic in sorted(origins.items())
    ]


def _state(topic: Topic, there: Topic | None) -> tuple[TopicState, str]:
    if there is None:
        return TopicState.MISSING, "the mirror creates it within seconds while it runs"
    if there.partitions < topic.partitions:
        return TopicState.SMALLER, "the mirror adds partitions within seconds while it runs"
    return TopicState.MIRRORED, ""


def render_topics(flow: FlowName, lines: Sequence[TopicLine], *, whole: bool) -> Page:
    """A line with the number of topics in each state, and a table; internal topics are in it only with `whole`."""
    shown = [line for line in lines if whole or line.state is not LeftOut.INTERNAL]
    counts = Counter(line.state.value for line in lines)
    page: Page = [f"{flow}: {', '.join(f'{count} {state}' for state, count in counts.items()) or 'no topics'}"]
    if shown:
        titles = ("topic", "remote topic", "partitions", "state", "settings", "why")
        page.append(make_table(titles, [_row(line) for line in shown], indent=2))
    return page


def _row(line: TopicLine) -> tuple[object, ...]:
    cluster_pair = (line.source_partitions, line.target_partitions)
    partitions = " / ".join("-" if count is None else str(count) for count in cluster_pair)
    return (line.topic, line.remote or "-", partitions, line.state.value, _settings(line.settings), line.reason)


def _settings(differing: tuple[str, ...] | None) -> str:
    if differing is None:
        return "-"
    if not differing:
        return "in step"
    more = len(differing) - _SETTINGS_NAMED_MAX
    named = ", ".join(differing[:_SETTINGS_NAMED_MAX])
    return f"differ: {named}{f' and {more} more' if more > 0 else ''}"
