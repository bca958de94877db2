"""The share of one process in one flow: which tasks it may run, may still run, and has sent to its planner.

It does no I/O. `sharing.group` owns it and calls it under its lock.
"""

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.control.commands import Began, Share
from sparkmirror.sharing.assignment import Claim, MemberAssignment


class FlowShare:
    """`assignment` is the last one from the group. A task counts as running from the moment a `Share` with it is sent
    to the planner until the planner has begun an epoch without it (`Began`).
    """

    def __init__(self, flow: FlowConfig, fingerprint: str, changed_ms: int) -> None:
        self.flow = flow
        self.assignment = MemberAssignment(str(flow.name), "")
        self._fingerprint = fingerprint
        self._changed_ms = changed_ms
        self._run = ""
        self._replaced: frozenset[str] = frozenset()
        self._process = ""
        self._number = 0
        self._running: frozenset[int] = frozenset()
        self._sent: Share | None = None
        self._began = 0
        self._is_ready = False
        self.lost_at = 0.0
        """When the group removed this process (monotonic seconds), while tasks of that time may still run and find
        that they are fenced; 0.0 otherwise."""

    def claim(self) -> Claim:
        """The claim that this process sends to the group."""
        flow = self.flow
        return Claim(
            str(flow.name),
            flow.tasks_max,
            self._fingerprint,
            self._changed_ms,
            self._running,
            self._run or self.assignment.run,
            flow.connector.group,
            flow.connector.name,
            self._is_ready,
            flow.producer.transaction_timeout_ms,
            self._replaced,
        )

    def on_assignment(self, assignment: MemberAssignment) -> list[str]:
        """Take in the group's assignment; returns sentences for the log."""
        before, self.assignment = self.assignment, assignment
        sentences = []
        is_alone_from_the_start = not before.run and len(assignment.tasks) == self.flow.tasks_max
        if (assignment.tasks != before.tasks or not before.run) and not is_alone_from_the_start:
            tasks = ", ".join(str(task) for task in sorted(assignment.tasks)) or "none"
            sentences.append(f"this process runs tasks {tasks} of {self.flow.tasks_max}")
        if assignment.rival and (assignment.rival, assignment.is_obeyed) != (before.rival, before.is_obeyed):
            verdict = (
                "this process's file was changed later and is obeyed"
                if assignment.is_obeyed
                else "its file was changed later and is obeyed, so this process runs nothing of the flow"
            )
            sentences.append(f"{assignment.rival} has a file that says something else of this flow; {verdict}")
        return sentences

    def begin_query(self, run: str, process: str) -> None:
        """The planner of a new query waits for its share: the flow's `run` and the query's `process` id address it."""
        self._run, self._process, self._sent = run, process, None

    def on_run_replaced(self, run: str) -> bool:
        """A later run has replaced this one, by the ledger: no process of the group can begin it again. Returns whether
        that is news for the group."""
        is_news = run not in self._replaced
        self._replaced |= {run}
        return is_news

    def next_share(self, member: str) -> Share | None:
        """The share to send to the planner, None where the planner has it or there is no query.

        A query of another run than the group's gets no tasks. The command may arrive even where sending it fails, so
        its tasks count as running from this call on.
        """
        if not self._process:
            return None
        tasks = self.assignment.tasks if self.assignment.run == self._run else frozenset()
        sent = self._sent
        if sent is not None and (sent.tasks, sent.member) == (tasks, member):
            return None
        self._number += 1
        self._running |= tasks
        return Share(self._run, self._process, self._number, tasks, member)

    def final_share(self, member: str) -> Share | None:
        """An empty share, by which the other processes learn that all tasks of this one have ended."""
        if not self._process:
            return None
        self._number += 1
        return Share(self._run, self._process, self._number, frozenset(), member, has_ended=True)

    def added(self, share: Share) -> frozenset[int]:
        """The tasks that the share adds to the share before it; empty if it also takes tasks away, or if that share
        had no tasks."""
        before = self._sent.tasks if self._sent is not None else frozenset()
        return share.tasks - before if before and before <= share.tasks else frozenset()

    def mark_sent(self, share: Share) -> None:
        """The share has been written to the command topic."""
        if share.process == self._process:
            self._sent = share

    def on_began(self, began: Began) -> bool:
        """The planner follows a share. Returns whether the process must join the group again to report it: tasks have
        become free for others, or its query can now take tasks.

        The command has no effect if a later share has been sent since: tasks of the later share may run already. Such
        old commands come whenever the topic is read again from its beginning.
        """
        share = self._sent
        if share is None or began.process != share.process or not began.number == share.number == self._number:
            return False
        self._began = began.number
        self.lost_at = 0.0
        before, self._running = self._running, share.tasks
        was_ready, self._is_ready = self._is_ready, True
        return bool(before - share.tasks) or not was_ready

    @property
    def awaits_planner(self) -> bool:
        """Whether the planner has not yet followed a share that takes tasks from it, or its first share."""
        share = self._sent
        if share is None or self._began >= share.number:
            return False
        return bool(self._running - share.tasks) or not self._is_ready or self.lost_at > 0

    def on_membership_lost(self, now: float) -> None:
        """The group has removed this process: it may run no task, and the group's leader fences those that run."""
        self.lost_at, self._sent = now, None
        self.assignment = MemberAssignment(self.assignment.flow, self.assignment.run)
        self._running = frozenset()
