"""Plans which process runs which tasks of which flow; pure. Called by `sharing.group` in the process that leads the
group.

The records that members of the group exchange, as JSON, are defined here too: `MemberMetadata` says what a process is
and what it runs, with a `Claim` in each of its flows; `MemberAssignment` says what it may run. Tasks change hands in
two rounds, as in Kafka's cooperative rebalancing (KIP-429): the first round takes tasks from their process, and only
when that process has reported that it has released them does the second round give them to another.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from sparkmirror.stored_json import Count, Name, Number, Text, decode_or_none, encode_sorted

_Tasks = Annotated[int, Meta(ge=1, le=100_000)]


@dataclass(frozen=True, slots=True)
class Claim:
    """One process's part in one flow: `tasks` is how many its file wants, `held` those that it runs now.

    `fingerprint` stands for what its file says of the flow, `changed_ms` for when the file was changed (since 1970).
    `run` is the flow's run as it knows it, "" for none. `connector` and its `group` name the tasks' transactional ids,
    whose transactions brokers abort after `transaction_timeout_ms`.
    Until it `is_ready`, its query has yet to start: tasks stay with those who can run them now.
    """

    flow: Name
    tasks: _Tasks
    fingerprint: Name
    changed_ms: Count
    held: frozenset[Number] = frozenset()
    run: Name = ""
    group: Name = ""
    connector: Name = ""
    is_ready: bool = True
    transaction_timeout_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """A process's place, for people (`host`, `pid`), its `file`, and its claims."""

    host: Name
    pid: Number
    file: Text
    stakes: tuple[Claim, ...]

    @property
    def place(self) -> str:
        return f"process {self.pid} on {self.host}"


@dataclass(frozen=True, slots=True)
class MemberAssignment:
    """The tasks of a flow that a process may run. `run` is the same in all processes that share the flow.

    `rival` describes a process whose file differs on the flow: the file that was changed last counts.
    """

    flow: Name
    run: Name
    tasks: frozenset[Number] = frozenset()
    rival: Text = ""
    is_obeyed: bool = True


def plan_shares(cards: Mapping[str, MemberMetadata], new_run: str) -> dict[str, tuple[MemberAssignment, ...]]:
    """The tasks that each member (by its id) may run now: even over processes and flows, and sticky.

    A task that another process still runs is given to nobody; a later round gives it away, when that process has
    released it. `new_run` names flows that have no run yet.
    """
    grants: dict[str, list[MemberAssignment]] = {member: [] for member in cards}
    load = dict.fromkeys(cards, 0)
    for flow in sorted({stake.flow for card in cards.values() for stake in card.stakes}):
        stakes = {member: stake for member, card in cards.items() for stake in card.stakes if stake.flow == flow}
        obeyed = _obeyed(stakes.values())
        eligible = {
            member: stake
            for member, stake in stakes.items()
            if (stake.fingerprint, stake.is_ready) == (obeyed.fingerprint, obeyed.is_ready)
        }
        quotas = _quotas(eligible, load, obeyed.tasks)
        for member, quota in quotas.items():
            load[member] += quota
        shares = _shares(eligible, stakes, quotas, obeyed.tasks)
        run = _run_of(stakes, new_run)
        for member, stake in stakes.items():
            rivals = [cards[other].place for other in sorted(stakes) if _disagree(stake, stakes[other])]
            grants[member].append(
                MemberAssignment(
                    flow,
                    run,
                    shares.get(member, frozenset()),
                    rivals[0] if rivals else "",
                    stake.fingerprint == obeyed.fingerprint,
                )
            )
    return {member: tuple(some) for member, some in grants.items()}


def plan_fencing(
    cards: Mapping[str, MemberMetadata], grants: Mapping[str, tuple[MemberAssignment, ...]]
) -> dict[Claim, frozenset[int]]:
    """For each flow with tasks that move to another process: the transactional ids that must be fenced first.

    The process that ran them last may still run them. The result has a claim that describes the flow, and all tasks
    that its processes run, which must not be fenced; the caller fences all others that there have ever been. Where one
    process gets all tasks, its planner fences them itself.
    """
    found: dict[Claim, frozenset[int]] = {}
    for member, some in grants.items():
        stakes = {stake.flow: stake for stake in cards[member].stakes}
        for grant in some:
            is_whole = len(grant.tasks) == stakes[grant.flow].tasks
            is_new = bool(grant.tasks - stakes[grant.flow].held) and not is_whole
            if is_new and grant.flow not in {stake.flow for stake in found}:
                everybody = (stake for card in cards.values() for stake in card.stakes if stake.flow == grant.flow)
                found[stakes[grant.flow]] = frozenset(task for stake in everybody for task in stake.held)
    return found


def _obeyed(stakes: Iterable[Claim]) -> Claim:
    """The file that was changed last among the processes that can run the flow now, or among all if none can."""
    return max(stakes, key=lambda stake: (stake.is_ready, stake.changed_ms, stake.fingerprint))


def _disagree(one: Claim, other: Claim) -> bool:
    """Whether another file says something else. A process that has not started yet is left out: it may be the first of
    a rolling restart, whose file will be obeyed soon."""
    return one.is_ready and other.is_ready and one.fingerprint != other.fingerprint


def _run_of(stakes: Mapping[str, Claim], new_run: str) -> str:
    """The run of a process that runs tasks, else a run that a process remembers: commands and counters belong to a
    run."""
    known = [(-len(stake.held), stake.run) for stake in stakes.values() if stake.run]
    return min(known)[1] if known else new_run


def _quotas(eligible: Mapping[str, Claim], load: Mapping[str, int], tasks: int) -> dict[str, int]:
    """How many tasks each process may run. Some run one task more: those with the least tasks of other flows, and among
    equals those that run the most of this one."""
    base, extra = divmod(tasks, len(eligible))
    order = sorted(eligible, key=lambda member: (load[member], -len(eligible[member].held), member))
    return {member: base + (place < extra) for place, member in enumerate(order)}


def _shares(
    eligible: Mapping[str, Claim], stakes: Mapping[str, Claim], quotas: Mapping[str, int], tasks: int
) -> dict[str, frozenset[int]]:
    fingerprints = {stake.fingerprint for stake in eligible.values()}
    if any(stake.held and stake.fingerprint not in fingerprints for stake in stakes.values()):
        return {}  # of another file: its tasks may read any partition, so all are waited for
    kept: dict[str, set[int]] = {}
    taken: set[int] = set()
    for member in sorted(eligible):
        held = sorted(task for task in eligible[member].held - taken if task < tasks)
        kept[member] = set(held[: quotas[member]])
        taken |= kept[member]
    busy = {task for stake in stakes.values() for task in stake.held}
    free = [task for task in range(tasks) if task not in taken | busy]
    for member in sorted(eligible):
        while free and len(kept[member]) < quotas[member]:
            kept[member].add(free.pop(0))
    return {member: frozenset(some) for member, some in kept.items()}


def encode_card(card: MemberMetadata) -> bytes:
    """The group metadata of a member."""
    return encode_sorted(card)


def decode_card(data: bytes) -> MemberMetadata | None:
    """The member's metadata; None for bytes that no version up to this one has written."""
    return decode_or_none(data, MemberMetadata)


def encode_grants(grants: Iterable[MemberAssignment]) -> bytes:
    """The group assignment of a member."""
    return encode_sorted(tuple(grants))


def decode_grants(data: bytes) -> tuple[MemberAssignment, ...]:
    """The member's assignment; empty for bytes that cannot be read: a member without an assignment runs nothing."""
    return decode_or_none(data, tuple[MemberAssignment, ...]) or ()
