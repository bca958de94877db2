"""Pictures of the status page and of a terminal, of a real mirror between two clusters: `make pictures`, two minutes.

A partition is paused, one is refused by the target, and records of another were deleted before they were mirrored.
`ARGS="--only terminal"` takes the picture of the terminal alone.
"""

import argparse
import http.client
import io
import json
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from playwright.sync_api import Browser, Page, expect
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text
from tests.oracle import Client
from tests.programs import use
from tests.scenarios.browser import chromium
from tests.scenarios.data import Note, alter_topic, make_topics, write
from tests.scenarios.mirror import COMMAND, Mirror, flow_file
from tests.terminal import Terminal

from sparkmirror.testing.kafka import KafkaCluster

PLACE: Final = Path(__file__).parents[1] / "docs" / "pictures"
VIEWS: Final = (
    "overview", "topics", "partitions", "groups", "gaps", "processes", "failover", "configuration", "log",
)  # fmt: skip
TOPICS: Final = {"flights": 6, "weather": 2, "baggage-claims": 4, "crew-rosters": 1}
_TOKEN: Final = "token-for-the-pictures-01"
_FLOW: Final = "west->backup"
_WIDE: Final = {"width": 1100, "height": 680}
_PHONE: Final = {"width": 390, "height": 780}
_CURVE_SECONDS: Final = 75.0
_COLUMNS: Final = 100
_STEADY_SECONDS: Final = 6.0
_TERMINAL: Final = {"width": 960, "height": 400}
_RATE: Final = re.compile(r"[1-9][\d,]*/s +[1-9.]+ [kM]B/s")
_LINES: Final = (
    "status.listen = localhost:0", f"status.token = {_TOKEN}", "sync.group.offsets.enabled = true",
    "groups = billing, boarding", "emit.checkpoints.interval.seconds = 1", "sync.group.offsets.interval.seconds = 1",
    "sync.topic.configs.enabled = false", "tasks.max = 2", "canary.interval.seconds = 1",
)  # fmt: skip


class Airport:
    """What the mirror mirrors, and what befalls it."""

    def __init__(self, source: Client, target: Client, directory: Path) -> None:
        self._source, self._target = source, target
        make_topics(source, TOPICS)
        self._random = random.Random(7)
        self.write(2000)
        for group, topic in (("billing", "baggage-claims"), ("boarding", "flights")):
            member = Consumer({**source, "group.id": group})
            member.commit(offsets=[TopicPartition(topic, 0, 20)], asynchronous=False)
            member.close()
        text = flow_file(source, target, alias="west", topics=", ".join(TOPICS), lines=_LINES)
        self._directory = directory
        (directory / "mirror.properties").write_text(text)
        self.mirror = Mirror(directory, text, program=(str(COMMAND), "run", "mirror.properties"))
        served = r"status page is at http://\S+:(\d+)/"
        self.mirror.wait_until(lambda: re.search(served, self.mirror.errors), "the page is served")
        self.port = int(re.findall(served, self.mirror.errors)[0])

    def write(self, count: int) -> None:
        for topic, partitions in TOPICS.items():
            write(self._source, topic, self._notes(count // len(TOPICS), partitions))

    def _notes(self, count: int, partitions: int) -> Iterator[Note]:
        for _ in range(count):
            yield Note(self._random.randbytes(200), partition=self._random.randrange(partitions))

    def state(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self._ask("GET", "/api/state"))
        return told

    def order(self, action: str, topic: str, partition: int) -> None:
        self._ask("POST", "/api/orders", {"action": action, "flow": _FLOW, "topic": topic, "partition": partition})

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            headers = {"Authorization": f"Bearer {_TOKEN}"}
            connection.request(method, path, json.dumps(body) if body else None, headers)
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def level(self) -> str:
        told = self.state()["parts"].get("verdict", {"level": ""})
        return str(told["level"])

    def show_on_a_terminal(self) -> list[str]:
        """What a second process with the same file shows at a terminal, while records come."""
        command = [str(COMMAND), "run", "mirror.properties"]
        environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": str(_COLUMNS), "LINES": "40"}

        since = 0.0

        def is_busy(lines: list[str]) -> bool:
            """Its first rate counts from nothing, what the other process mirrored before."""
            nonlocal since
            self.write(3000)
            is_moving = any(_FLOW in line and _RATE.search(line) for line in lines)
            since = since or (time.monotonic() if is_moving else 0.0)
            is_shared = any("runs tasks 1 of 2" in line or "runs tasks 0 of 2" in line for line in lines)
            return is_moving and is_shared and time.monotonic() > since + _STEADY_SECONDS

        with Terminal(command, self._directory, environment) as terminal:
            lines = terminal.wait_until(is_busy, 180)
        return [f"$ sparkmirror {' '.join(command[1:])}", *lines]

    def have_a_bad_night(self) -> None:
        """While one partition is paused, records of it are deleted; another one's are too large for the target."""
        self.mirror.wait_until(lambda: self.level() == "green", "all is well")
        self.order("pause", "weather", 1)
        self.mirror.wait_until(lambda: self.level() == "amber", "it is paused", 60)
        write(self._source, "weather", (Note(b"late", partition=1) for _ in range(485)))
        end = self._end("weather", 1)
        admin = AdminClient(dict(self._source))  # it must live until it has answered
        for deleted in admin.delete_records([TopicPartition("weather", 1, end - 5)]).values():
            deleted.result(60)
        self.order("resume", "weather", 1)
        self.mirror.wait_until(lambda: "gap" in json.dumps(self.state()["parts"]["verdict"]), "the gap is seen", 60)
        self.order("pause", "baggage-claims", 3)
        alter_topic(self._target, "west.flights", {"max.message.bytes": "2000"})
        until = time.monotonic() + _CURVE_SECONDS
        while time.monotonic() < until:
            self.write(self._random.randrange(400, 4000))
            time.sleep(1)
        write(self._source, "flights", [Note(b"x" * 50_000, partition=4)], compression_type="none")
        self.mirror.wait_until(lambda: self.level() == "red", "the target refuses a record", 60)

    def _end(self, topic: str, partition: int) -> int:
        member = Consumer({**self._source, "group.id": "pictures"})
        _, end = member.get_watermark_offsets(TopicPartition(topic, partition), 60)
        member.close()
        return int(end)


def take_pictures(browser: Browser, url: str) -> None:
    PLACE.mkdir(exist_ok=True)
    for name, view in ((view, view) for view in VIEWS):
        page = _open(browser, url, view, "light", _WIDE)
        if view == "topics":
            page.get_by_role("row", name=re.compile("^.?flights")).click()
            page.wait_for_timeout(1500)
        _take(page, name)
    _take(_open(browser, url, f"partitions/{_FLOW.replace('>', '%3E')}/flights/4", "light", _WIDE), "partition")
    page = _open(browser, url, "overview", "light", _WIDE)
    page.locator("article.flow").evaluate("card => card.scrollIntoView()")
    _take(page, "flow")
    _take(_open(browser, url, "overview", "dark", _WIDE), "overview-dark")
    _take(_open(browser, url, "overview", "light", _PHONE), "overview-phone")


def take_terminal(browser: Browser, lines: list[str]) -> None:
    """As a terminal with a light font on a dark ground shows them."""
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)
    for line in "\n".join(lines).rstrip().splitlines():
        console.print(Text.from_ansi(line), soft_wrap=True)
    size: Any = _TERMINAL
    page = browser.new_context(viewport=size, device_scale_factor=2).new_page()
    page.set_content(console.export_html(theme=MONOKAI, inline_styles=True))
    page.add_style_tag(content="pre {display: inline-block; padding: 12px 16px; font-size: 13px !important}")
    page.locator("pre").screenshot(path=PLACE / "terminal.png")
    page.context.close()


def _open(browser: Browser, url: str, place: str, colours: Any, size: Any) -> Page:
    page = browser.new_context(viewport=size, color_scheme=colours).new_page()
    page.goto(f"{url}#{place}")
    expect(page.locator(".link.live")).to_be_visible()
    page.wait_for_timeout(6000)  # what is looked up on the clusters, and curves
    return page


def _take(page: Page, name: str) -> None:
    file = PLACE / f"{name}.png"
    page.screenshot(path=file, animations="disabled")
    page.context.close()
    print(f"{file.name}: {file.stat().st_size / 1000:.0f} kB", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("terminal",))
    only = parser.parse_args().only
    use()
    with (
        tempfile.TemporaryDirectory() as directory,
        KafkaCluster(name="west") as source,
        KafkaCluster(name="backup") as target,
    ):
        servers = [{"bootstrap.servers": one.bootstrap_servers} for one in (source, target)]
        airport = Airport(servers[0], servers[1], Path(directory))
        try:
            lines = airport.show_on_a_terminal()
            with chromium() as browser:
                take_terminal(browser, lines)
            if only is None:
                airport.have_a_bad_night()
                with chromium() as browser:
                    take_pictures(browser, f"http://localhost:{airport.port}/")
        finally:
            airport.mirror.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
