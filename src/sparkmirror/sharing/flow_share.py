"""The share of one process in one flow: which tasks it may run, may still be running, and has announced to its planner.

No I/O. Owned by `sharing.group`, under its lock.
"""

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.commands import Began, Share
from sparkmirror.sharing.assignment import Claim, MemberAssignment


class FlowShare:
    """`grant` is the group's word. Tasks count as running from the moment the planner hears of them (`Share`) until
    it has begun an epoch without them (`Began`).
    """

    def __init__(self, flow: FlowConfig, fingerprint: str, changed_ms: int) -> None:
        self.flow = flow
        self.grant = MemberAssignment(str(flow.name), "")
        self._fingerprint = fingerprint
        self._changed_ms = changed_ms
        self._run = ""
        self._process = ""
        self._number = 0
        self._running: frozenset[int] = frozenset()
        self._told: Share | None = None
        self._began = 0
        self._is_ready = False
        self.lost_at = 0.0
        """When the group went on without this process, while what ran then may still find that it is fenced."""

    def stake(self) -> Claim:
        """The claim that this process sends to the group."""
        flow = self.flow
        return Claim(
            str(flow.name),
            flow.tasks_max,
            self._fingerprint,
            self._changed_ms,
            self._running,
            self._run or self.grant.run,
            flow.connector.group,
            flow.connector.name,
            self._is_ready,
            flow.producer.transaction_timeout_ms,
        )

    def take(self, grant: MemberAssignment) -> list[str]:
        """The group's word; returns what a person should know of it."""
        before, self.grant = self.grant, grant
        sentences = []
        is_alone_from_the_start = not before.run and len(grant.tasks) == self.flow.tasks_max
        if (grant.tasks != before.tasks or not before.run) and not is_alone_from_the_start:
            tasks = ", ".join(str(task) for task in sorted(grant.tasks)) or "none"
            sentences.append(f"this process runs tasks {tasks} of {self.flow.tasks_max}")
        if grant.rival and (grant.rival, grant.is_obeyed) != (before.rival, before.is_obeyed):
            verdict = (
                "this process's file was changed later and is obeyed"
                if grant.is_obeyed
                else "its file was changed later and is obeyed, so this process runs nothing of the flow"
            )
            sentences.append(f"{grant.rival} has a file that says something else of this flow; {verdict}")
        return sentences

    def engage(self, run: str, process: str) -> None:
        """A query of that name waits for its share."""
        self._run, self._process, self._told = run, process, None

    def next_share(self, member: str) -> Share | None:
        """The share that the planner has to be sent, None if it has it.

        A query of another run than the group's gets no tasks. The command may arrive even where sending it fails, so
        its tasks count as running from this call on.
        """
        if not self._process:
            return None
        tasks = self.grant.tasks if self.grant.run == self._run else frozenset()
        told = self._told
        if told is not None and (told.tasks, told.member) == (tasks, member):
            return None
        self._number += 1
        self._running |= tasks
        return Share(self._run, self._process, self._number, tasks, member)

    def farewell(self, member: str) -> Share | None:
        """The share that tells the other processes that all tasks of this one have ended."""
        if not self._process:
            return None
        self._number += 1
        return Share(self._run, self._process, self._number, frozenset(), member)

    def added(self, share: Share) -> frozenset[int]:
        """The tasks that the share adds to those of the share before it; empty if it lacks some of those, or nothing
        runs."""
        before = self._told.tasks if self._told is not None else frozenset()
        return share.tasks - before if before and before <= share.tasks else frozenset()

    def told(self, share: Share) -> None:
        """The share is on the command topic."""
        if share.process == self._process:
            self._told = share

    def hear(self, began: Began) -> bool:
        """Takes in a command on the share; whether the group must learn of it, because tasks are free for others, or
        because a query runs that can take some.

        A command on an earlier share has no effect once a later one is on its way: the later one's tasks run from then
        on. The topic is read again from its beginning at times, and then has such commands.
        """
        share = self._told
        if share is None or began.process != share.process or not began.number == share.number == self._number:
            return False
        self._began = began.number
        self.lost_at = 0.0
        before, self._running = self._running, share.tasks
        was_ready, self._is_ready = self._is_ready, True
        return bool(before - share.tasks) or not was_ready

    @property
    def is_awaited(self) -> bool:
        """Whether the planner has yet to begin with a share by which it releases tasks, or with its first share."""
        share = self._told
        if share is None or self._began >= share.number:
            return False
        return bool(self._running - share.tasks) or not self._is_ready or self.lost_at > 0

    def lose(self, now: float) -> None:
        """Out of the group: nothing is granted, and what runs is fenced by the others."""
        self.lost_at, self._told = now, None
        self.grant = MemberAssignment(self.grant.flow, self.grant.run)
        self._running = frozenset()
