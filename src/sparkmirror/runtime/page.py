"""Serves a running mirror's page and probes on `status.listen` and `status.probes.listen`, by `sparkmirror.web`.

Called by `runtime.run`.
"""

import logging
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from sparkmirror import __version__
from sparkmirror.config.flow.flows import FlowConfig, MirrorConfig
from sparkmirror.runtime.jobs import Job
from sparkmirror.runtime.running_flow import RunningFlow
from sparkmirror.web.health import Health

if TYPE_CHECKING:
    from sparkmirror.web.app import Document
    from sparkmirror.web.watchers import FlowWatcher

_LOOK_SECONDS = 1.0
_FEEDS_SECONDS = 15.0


class Page:
    """The page of a running mirror; without an address in the file it imports and opens nothing. A context manager."""

    def __init__(self, config: MirrorConfig, health: Health) -> None:
        """Raises EnvironmentProblem where it cannot listen or lacks the extra `web`, ConfigError for a certificate that
        cannot be used."""
        self._closing = ExitStack()
        self._open: _OpenPage | None = None
        if config.status.probes_listen or config.status.listen:
            from sparkmirror.operations.machine_checks import require_page_server

            require_page_server()
        with ExitStack() as closing:
            if config.status.probes_listen:
                closing.callback(_open_probes(config, health))
            if config.status.listen:
                self._open = _OpenPage(config, health)
                closing.callback(self._open.close)
            self._closing = closing.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def watch(self, flows: Sequence[RunningFlow]) -> None:
        """Shows these flows from now on; their internal topics exist."""
        if self._open is not None:
            self._open.watch(flows)


def _open_probes(config: MirrorConfig, health: Health) -> Callable[[], None]:
    """Serve the probes on a port of their own; returns the function that closes it."""
    from sparkmirror.web.server import PageKeeper, ProbesServer

    keeper = PageKeeper(lambda: ProbesServer(config.status, health))
    job = _often("probes address", keeper)
    job.start()

    def close() -> None:
        job.stop()
        keeper.close()

    return close


class _OpenPage:
    """The page of a file with an address."""

    def __init__(self, config: MirrorConfig, health: Health) -> None:
        from sparkmirror.telemetry.scrape import Scrapes
        from sparkmirror.web.api import PageRequests
        from sparkmirror.web.failures import FailureLog
        from sparkmirror.web.lookups import LOOKS
        from sparkmirror.web.page_state import PageState
        from sparkmirror.web.plain import plain_page
        from sparkmirror.web.server import PageKeeper, PageServer

        self._config = config
        self._page_state = PageState()
        self._watchers: dict[str, FlowWatcher] = {}
        self._running: dict[str, RunningFlow] = {}
        self._flows = {str(flow.name): flow for flow in config.flows}
        self._log = FailureLog()
        self._scrapes = Scrapes()
        logging.getLogger("sparkmirror").addHandler(self._log)
        self._page_state.put("about", _about(config))
        lookups = {kind: _by_flow(self._flows, make) for kind, make in LOOKS.items()}
        desk = PageRequests(self._page_state, tuple(self._flows), self._curves, self._settings, lookups, self._order)
        documents: dict[str, Document] = {
            "/status.txt": partial(plain_page, self._page_state),
            "/metrics": self._scrapes.answer,
        }
        self._keeper = PageKeeper(lambda: PageServer(config.status, health, documents, desk))
        self._jobs = [_often("page address", self._keeper)]
        self._jobs[0].start()

    def close(self) -> None:
        for job in self._jobs:
            job.stop()
        logging.getLogger("sparkmirror").removeHandler(self._log)
        self._keeper.close()

    def watch(self, flows: Sequence[RunningFlow]) -> None:
        from sparkmirror.telemetry.scrape import FlowScrape
        from sparkmirror.web.watchers import FailuresWatcher, FeedsWatcher, FlowWatcher, Headline

        headline = Headline(self._page_state, [running.flow.name for running in flows])
        self._running = {str(running.flow.name): running for running in flows}
        self._watchers = {
            name: FlowWatcher(
                running.flow,
                partial(_run_of, running),
                self._page_state,
                headline,
                self._config.file,
                running.reporter.why_unwritten,
            )
            for name, running in self._running.items()
        }
        for name, running in self._running.items():
            follower = self._watchers[name].follower
            self._scrapes.add(FlowScrape(follower, running.checkpoints.spreads, running.reporter.why_unwritten))
        targets = dict.fromkeys(running.flow.name.target for running in flows)
        feeds = [(alias, FeedsWatcher(self._config, alias, self._page_state)) for alias in targets]
        jobs = [
            *(_often(f"{name} page", watcher) for name, watcher in self._watchers.items()),
            _often("page", FailuresWatcher(self._log, self._page_state)),
            *(
                Job(f"{alias} page", _FEEDS_SECONDS, watcher, look_seconds=_FEEDS_SECONDS, cost_share=0.1)
                for alias, watcher in feeds
            ),
        ]
        for job in jobs:
            job.start()
        self._jobs += jobs

    def _curves(self, flow: str, numbers: list[int]) -> dict[int, list[int | None]]:
        watcher = self._watchers.get(flow)
        return watcher.curves_of(numbers) if watcher is not None else {}

    def _settings(self) -> dict[str, Any]:
        from sparkmirror.config.explain import explain_all

        config = self._config
        explained = explain_all(config.lines, config.flows, config.clusters)
        settings = {name: [setting.as_json() for setting in listed] for name, listed in explained.items()}
        return {"file": config.file, "warnings": list(config.warnings), "settings": settings}

    def _order(self, order: Any) -> None:
        from sparkmirror.errors import SparkMirrorError
        from sparkmirror.web.orders import give_order

        if (running := self._running.get(order.flow)) is None:
            raise SparkMirrorError(f"{order.flow} has not started yet.", "Try again in a moment.")
        give_order(running.flow, running.run, order)


def _by_flow(flows: Mapping[str, FlowConfig], make: Callable[[FlowConfig], dict[str, Any]]) -> Callable[[str], Any]:
    """A function that makes the look-up of a flow by the flow's name."""
    from sparkmirror.web.lookups import LookUp

    looks = {name: LookUp(flow, make) for name, flow in flows.items()}
    return lambda name: looks[name]()


def _run_of(running: RunningFlow) -> str:
    """The flow's run; it changes when the flow's processes begin another."""
    return running.run


def _often(name: str, watcher: Any) -> Job:
    return Job(name, _LOOK_SECONDS, watcher, look_seconds=_LOOK_SECONDS, cost_share=0.5)


def _about(config: MirrorConfig) -> dict[str, Any]:
    return {
        "version": __version__,
        "file": config.file,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "started_ms": time.time_ns() // 1_000_000,
        "may_order": bool(config.status.token),
    }
