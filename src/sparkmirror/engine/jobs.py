"""Control-plane jobs of a flow, one thread each, all of one shape: observe, plan, apply. Started by `engine.run`."""

import logging
import threading
from collections.abc import Callable
from functools import partial

from sparkmirror.config.flows import FlowConfig
from sparkmirror.errors import SparkMirrorError
from sparkmirror.kafka.clients import open_admin
from sparkmirror.policy.filters import NameFilter
from sparkmirror.sync.topic_job import TopicReport, TopicSync
from sparkmirror.sync.topics import CreateTopic, TopicRules

log = logging.getLogger(__name__)


def topic_rules(flow: FlowConfig) -> TopicRules:
    """The flow's settings as the topic job's rules."""
    excluded = NameFilter(flow.config_properties_exclude)
    return TopicRules(
        is_mirrored=flow.should_replicate,
        remote_name=flow.remote_topic,
        is_copied=lambda name: not excluded.accepts(name),
        replication_factor=flow.replication_factor,
    )


def sync_topics(flow: FlowConfig) -> TopicReport:
    """One round of the topic job, over connections of its own. Raises ClusterError."""
    with open_admin(flow.source, "topics") as source, open_admin(flow.target, "topics") as target:
        return TopicSync(source, target, topic_rules(flow)).sync_once()


class Job:
    """Runs `work` every `seconds` until stopped; a failure is told once and tried again."""

    def __init__(self, name: str, seconds: float, work: Callable[[], None]) -> None:
        self._name = name
        self._seconds = seconds
        self._work = work
        self._stopping = threading.Event()
        self._told = ""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the job to end; a round under way is not waited for."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(self._seconds):
            try:
                self._work()
                self._told = ""
            except SparkMirrorError as problem:
                if str(problem) != self._told:
                    self._told = str(problem)
                    log.warning("%s: %s", self._name, problem)


class TopicJob:
    """The topic job with connections that stay open between rounds and are made anew after a failure."""

    def __init__(self, flow: FlowConfig) -> None:
        self._flow = flow
        self._sync: TopicSync | None = None
        self._close: Callable[[], None] = lambda: None
        self._told: set[str] = set()

    def __call__(self) -> None:
        try:
            if self._sync is None:
                self._open()
            assert self._sync is not None
            report = self._sync.sync_once()
        except SparkMirrorError:
            self._close()
            self._sync = None
            raise
        self._tell(report)

    def _open(self) -> None:
        source = open_admin(self._flow.source, "topics")
        try:
            target = open_admin(self._flow.target, "topics")
        except SparkMirrorError:
            source.close()
            raise
        self._sync = TopicSync(source, target, topic_rules(self._flow))
        self._close = partial(_close_both, source.close, target.close)

    def _tell(self, report: TopicReport) -> None:
        created = [action.name for action in report.plan.actions if isinstance(action, CreateTopic)]
        if created:
            log.info("%s: created %s.", self._flow.name, ", ".join(created))
        sentences = set(report.failures)
        for sentence in sorted(sentences - self._told):
            log.warning("%s: %s", self._flow.name, sentence)
        self._told = sentences


def _close_both(first: Callable[[], None], second: Callable[[], None]) -> None:
    first()
    second()
