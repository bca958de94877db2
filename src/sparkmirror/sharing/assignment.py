"""Plans which process runs which tasks of which flow; pure. Called by `sharing.group` in the process that leads the
group.

This module also defines the JSON that members of the group exchange: `MemberMetadata` describes a process and what it
runs, with a `Claim` in each of its flows; `MemberAssignment` says what it may run. Tasks change hands in two rounds, as
in Kafka's cooperative rebalancing (KIP-429): the first round takes tasks from their process, and only when that process
has reported that it has released them does the second round give them to another.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from sparkmirror.stored_json import Count, Name, Number, Text, decode_or_none, encode_sorted

_Tasks = Annotated[int, Meta(ge=1, le=100_000)]


@dataclass(frozen=True, slots=True)
class Claim:
    """What one process reports about one flow: `tasks` is `tasks.max` in its file, `held` are the tasks it runs now.

    `fingerprint` is a hash of what its file says about the flow, `changed_ms` the time of the file's last change (ms
    since 1970). `run` is the flow's run that the process knows, "" for none. `connector` and its `group` name the
    tasks' transactional ids, whose transactions brokers abort after `transaction_timeout_ms`. `is_ready` is False
    until the process's query runs; meanwhile tasks stay with processes that can run them. `replaced` are runs that this
    process has found replaced by later ones.
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
    replaced: frozenset[Name] = frozenset()


class MemberMetadata(Struct, frozen=True, rename={"claims": "stakes"}):
    """What a process tells the group: where it runs (`host`, `pid`), its `file`, and its claim in each flow."""

    host: Name
    pid: Number
    file: Text
    claims: tuple[Claim, ...]

    @property
    def place(self) -> str:
        return f"process {self.pid} on {self.host}"


@dataclass(frozen=True, slots=True)
class MemberAssignment:
    """The tasks of a flow that a process may run. `run` is the same in all processes that share the flow.

    `rival` names a process whose file configures the flow differently, "" where there is none. The group follows the
    file that was changed last; `is_obeyed` says whether that is this process's file.
    """

    flow: Name
    run: Name
    tasks: frozenset[Number] = frozenset()
    rival: Text = ""
    is_obeyed: bool = True


def plan_shares(members: Mapping[str, MemberMetadata], new_run: str) -> dict[str, tuple[MemberAssignment, ...]]:
    """The tasks that each member (by its id) may run now: spread evenly over processes and flows, and sticky.

    A task that its process still runs but shall release is assigned to no other process in this round; a later round
    assigns it when that process has released it. Flows without a run get `new_run`.
    """
    assignments: dict[str, list[MemberAssignment]] = {member: [] for member in members}
    load = dict.fromkeys(members, 0)
    for flow in sorted({claim.flow for metadata in members.values() for claim in metadata.claims}):
        claims = _claims_in(flow, members)
        obeyed = _obeyed(claims.values())
        eligible = {
            member: claim
            for member, claim in claims.items()
            if (claim.fingerprint, claim.is_ready) == (obeyed.fingerprint, obeyed.is_ready)
        }
        quotas = _quotas(eligible, load, obeyed.tasks)
        for member, quota in quotas.items():
            load[member] += quota
        shares = _shares(eligible, claims, quotas, obeyed.tasks)
        run = _run_of(claims, new_run)
        for member, claim in claims.items():
            rivals = [members[other].place for other in sorted(claims) if _disagree(claim, claims[other])]
            assignments[member].append(
                MemberAssignment(
                    flow,
                    run,
                    shares.get(member, frozenset()),
                    rivals[0] if rivals else "",
                    claim.fingerprint == obeyed.fingerprint,
                )
            )
    return {member: tuple(some) for member, some in assignments.items()}


def plan_fencing(
    members: Mapping[str, MemberMetadata], assignments: Mapping[str, tuple[MemberAssignment, ...]]
) -> dict[Claim, frozenset[int]]:
    """The flows with tasks that move to another process, whose transactional ids must be fenced first: a process that
    the group has lost may still run those tasks.

    Each flow is given by a claim in it, with the tasks that its processes run now and that must not be fenced. The
    caller fences all other tasks that the flow has ever had. A flow whose tasks all go to one process is left out: the
    planner of that process fences them.
    """
    found: dict[Claim, frozenset[int]] = {}
    for member, some in assignments.items():
        claims = {claim.flow: claim for claim in members[member].claims}
        for assignment in some:
            is_whole = len(assignment.tasks) == claims[assignment.flow].tasks
            is_new = bool(assignment.tasks - claims[assignment.flow].held) and not is_whole
            if is_new and assignment.flow not in {claim.flow for claim in found}:
                everybody = _claims_in(assignment.flow, members).values()
                found[claims[assignment.flow]] = frozenset(task for claim in everybody for task in claim.held)
    return found


def _claims_in(flow: str, members: Mapping[str, MemberMetadata]) -> dict[str, Claim]:
    """The members' claims in one flow, by member id."""
    return {member: claim for member, metadata in members.items() for claim in metadata.claims if claim.flow == flow}


def _obeyed(claims: Iterable[Claim]) -> Claim:
    """The claim whose file was changed last, among processes that can run the flow now, or among all if none can."""
    return max(claims, key=lambda claim: (claim.is_ready, claim.changed_ms, claim.fingerprint))


def _disagree(one: Claim, other: Claim) -> bool:
    """Whether the two files configure the flow differently. A process that has not started its query yet does not
    count: it may be the first of a rolling restart, whose file the group will follow soon."""
    return one.is_ready and other.is_ready and one.fingerprint != other.fingerprint


def _run_of(claims: Mapping[str, Claim], new_run: str) -> str:
    """The run of the process that runs the most tasks, else a run that a process knows, else `new_run`. Keeping a run
    keeps its commands and counters; one that another has replaced can begin no more."""
    replaced = frozenset[str]().union(*(claim.replaced for claim in claims.values()))
    known = [(-len(claim.held), claim.run) for claim in claims.values() if claim.run and claim.run not in replaced]
    return min(known)[1] if known else new_run


def _quotas(eligible: Mapping[str, Claim], load: Mapping[str, int], tasks: int) -> dict[str, int]:
    """How many tasks each process may run. Some run one task more: those with the least tasks of other flows, and among
    equals those that run more already. How many more must not count: it changes from round to round, as tasks are
    released and granted, and with it this flow's quotas and those of later flows."""
    base, extra = divmod(tasks, len(eligible))
    order = sorted(eligible, key=lambda member: (load[member], len(eligible[member].held) <= base, member))
    return {member: base + (place < extra) for place, member in enumerate(order)}


def _shares(
    eligible: Mapping[str, Claim], claims: Mapping[str, Claim], quotas: Mapping[str, int], tasks: int
) -> dict[str, frozenset[int]]:
    fingerprints = {claim.fingerprint for claim in eligible.values()}
    if any(claim.held and claim.fingerprint not in fingerprints for claim in claims.values()):
        return {}  # tasks of another configuration may read any partition, so none starts before all have ended
    kept: dict[str, set[int]] = {}
    taken: set[int] = set()
    for member in sorted(eligible):
        held = sorted(task for task in eligible[member].held - taken if task < tasks)
        kept[member] = set(held[: quotas[member]])
        taken |= kept[member]
    busy = {task for claim in claims.values() for task in claim.held}
    free = [task for task in range(tasks) if task not in taken | busy]
    for member in sorted(eligible):
        while free and len(kept[member]) < quotas[member]:
            kept[member].add(free.pop(0))
    return {member: frozenset(some) for member, some in kept.items()}


def encode_metadata(metadata: MemberMetadata) -> bytes:
    """The group metadata of a member. What UTF-8 does not have, in a file's odd name, becomes `?`."""
    return encode_sorted(replace(metadata, file=metadata.file.encode(errors="replace").decode()))


def decode_metadata(data: bytes) -> MemberMetadata | None:
    """The member's metadata; None for bytes that are no valid metadata."""
    return decode_or_none(data, MemberMetadata)


def encode_assignments(assignments: Iterable[MemberAssignment]) -> bytes:
    """The assignments of a member, as Kafka's group protocol distributes them."""
    return encode_sorted(tuple(assignments))


def decode_assignments(data: bytes) -> tuple[MemberAssignment, ...]:
    """The member's assignments; empty for bytes that cannot be read, with which the member runs nothing."""
    return decode_or_none(data, tuple[MemberAssignment, ...]) or ()
