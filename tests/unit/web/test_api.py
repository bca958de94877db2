"""What the page asks its server for, over a real connection."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import psutil
import pytest
from tests.unit.web.conftest import TOKEN, Served

from sparkmirror.config.flow.settings import StatusSettings
from sparkmirror.config.types import Address
from sparkmirror.errors import ClusterUnreachable
from sparkmirror.web import listener as door
from sparkmirror.web.api import PageRequests
from sparkmirror.web.health import Health
from sparkmirror.web.orders import Order
from sparkmirror.web.page_state import PageState
from sparkmirror.web.server import PageServer

FLOW = "A->B"
BEARER = f"Bearer {TOKEN}"


@dataclass(slots=True)
class Page(Served):
    """With a desk behind it."""

    page_state: PageState = field(default_factory=PageState)
    ordered: list[Order] = field(default_factory=list)


@pytest.fixture
def page() -> Iterator[Page]:
    page_state, ordered = PageState(), list[Order]()

    def readiness(_: str) -> Any:
        raise ClusterUnreachable("Cluster B does not answer.", "Is it up?")

    def curves(flow: str, numbers: list[int]) -> dict[int, list[int | None]]:
        return {number: [number, number] for number in numbers}

    desk = PageRequests(
        page_state, (FLOW,), curves, lambda: {"file": "m.properties"}, {"readiness": readiness}, ordered.append
    )
    settings, health = StatusSettings(Address("127.0.0.1", 0), TOKEN), Health()
    with PageServer(settings, health, {}, desk).start() as server:
        yield Page(server, health, {}, page_state, ordered)


def test_the_state_is_all_there_is_and_later_what_has_changed(page: Page) -> None:
    page.page_state.put("about", {"version": "1"})
    page.page_state.replace_rows("partitions/A->B", {"t": ("t", 0)})
    first = page.ask("/api/state").json()
    assert first["whole"] and first["parts"] == {"about": {"version": "1"}}
    assert first["rows"] == {"partitions/A->B": [[0, "t", 0]]}
    assert abs(first["now_ms"] / 1000 - time.time()) < 60
    page.page_state.put("failures", [])
    later = page.ask(f"/api/state?life={first['life']}&since={first['version']}").json()
    assert not later["whole"] and later["parts"] == {"failures": []} and later["rows"] == {}


@pytest.mark.parametrize("number", ["-1", "x", "1e9", "9" * 40, "9" * 5000, "²"])
@pytest.mark.parametrize("path", ["/api/state?since=", "/api/events?since=", "/api/lags?flow=A-%3EB&n=3,"])
def test_an_absurd_number_is_refused_as_the_askers_slip(page: Page, path: str, number: str) -> None:
    answer = page.ask(path + quote(number))
    assert answer.status == 400 and "is a whole number of at most 18 digits" in answer.json()["error"]


def test_an_order_that_does_not_come_to_its_end_is_given_up(page: Page) -> None:
    with socket.create_connection(("127.0.0.1", page.server.address.port), 60) as connection:
        head = (
            f"POST /api/orders HTTP/1.1\r\nHost: localhost\r\nAuthorization: {BEARER}\r\nContent-Length: 99\r\n\r\n{{"
        )
        connection.sendall(head.encode())
        assert connection.recv(12) == b"HTTP/1.1 408"


def events(page: Page) -> Generator[dict[str, Any], None, None]:
    connection = http.client.HTTPConnection("127.0.0.1", page.server.address.port, timeout=60)
    connection.request("GET", "/api/events")
    answer = connection.getresponse()
    assert answer.getheader("content-type") == "text/event-stream"
    try:
        while line := answer.readline():
            if line.startswith(b"data: "):
                yield json.loads(line[6:])
    finally:
        connection.close()


def test_events_bring_what_changes_and_a_beat_when_nothing_does(page: Page) -> None:
    page.page_state.put("about", 1)
    stream = events(page)
    assert next(stream)["parts"] == {"about": 1}
    page.page_state.put("about", 2)
    found = next(one for one in stream if one["parts"])  # a slow machine hears a beat before
    assert found["parts"] == {"about": 2} and not found["whole"]
    assert next(stream)["parts"] == {}
    stream.close()


def test_a_whole_state_comes_in_pieces_of_which_the_first_can_be_drawn(page: Page) -> None:
    page.page_state.put("about", 1)
    page.page_state.replace_rows("partitions/A->B", {number: (number,) for number in range(2500)})
    stream = events(page)
    pieces = [next(stream) for _ in range(5)]
    assert [piece["whole"] for piece in pieces] == [True, False, False, False, False]
    assert pieces[0]["parts"] == {"about": 1} and not pieces[0]["rows"]
    rows = [row for piece in pieces for row in piece["rows"].get("partitions/A->B", [])]
    assert sorted(number for number, _ in rows) == list(range(2500))
    assert [piece["version"] for piece in pieces] == [0, 0, 0, 0, 2]
    stream.close()


def test_a_server_that_closes_lets_go_of_its_viewers_at_once(page: Page) -> None:
    heard: list[dict[str, Any]] = []
    viewer = threading.Thread(target=lambda: heard.extend(events(page)))
    viewer.start()
    deadline = time.monotonic() + 60
    while not heard and time.monotonic() < deadline:
        time.sleep(0.02)
    began = time.monotonic()
    page.server.close()
    viewer.join(30)
    assert not viewer.is_alive() and time.monotonic() - began < 30, "by itself it would wait for 60 s"


def test_who_takes_nothing_of_an_answer_is_put_out(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "_STALLED_SECONDS_MAX", 0.2)
    page.page_state.replace_rows("partitions/A->B", {number: ("x" * 1000, number) for number in range(20_000)})
    with socket.socket() as viewer:
        viewer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        viewer.connect(("127.0.0.1", page.server.address.port))
        viewer.sendall(f"GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: {BEARER}\r\n\r\n".encode())
        ours = viewer.getsockname()[1]
        await_true(lambda: is_served(page, ours))
        await_true(lambda: not is_served(page, ours))


def is_served(page: Page, port: int) -> bool:
    """Whether the server, a thread of this process, has a connection with that port open."""
    ends = (one for one in psutil.Process().net_connections("tcp") if one.raddr and one.laddr)
    return any((one.laddr.port, one.raddr.port) == (page.server.address.port, port) for one in ends)


def await_true(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_curves_are_of_one_flow_and_of_the_rows_that_are_asked_for(page: Page) -> None:
    assert page.ask("/api/lags?flow=A-%3EB&n=3,5,").json() == {"3": [3, 3], "5": [5, 5]}
    assert page.ask("/api/lags?flow=A-%3EC&n=3").json()["error"] == "There is no flow A->C."
    assert page.ask("/api/lags").status == 404


def test_a_cluster_that_does_not_answer_is_reported_to_the_page(page: Page) -> None:
    answer = page.ask("/api/readiness?flow=A-%3EB")
    assert (answer.status, answer.json()["error"]) == (503, "Cluster B does not answer.")
    assert page.ask("/api/config").json() == {"file": "m.properties"}


def test_an_order_with_the_token_is_carried_out_once(page: Page) -> None:
    body = json.dumps({"action": "pause", "flow": FLOW, "topic": "t", "partition": 1})
    assert page.ask("/api/orders", "POST", body).status == 401
    assert page.ask("/api/orders", "POST", body, Authorization=BEARER).status == 202
    assert page.ordered == [Order("pause", FLOW, "t", 1)]


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ("", 400, "That is not JSON."),
        ("[" * 9000, 400, ""),
        (json.dumps({"action": "pause", "flow": FLOW, "topic": "t", "partition": 10**30}), 400, ""),
        (json.dumps({"action": "pause", "flow": FLOW, "topic": "t", "partition": -1}), 400, ""),
        (f'{{"action": "pause", "flow": "{FLOW}", "topic": "t", "partition": {"9" * 5000}}}', 400, ""),
        ('{"action": "stop"}', 400, "An order is an object whose `action` is pause, resume, retry."),
        (json.dumps({"action": "pause", "flow": "X->Y"}), 404, "There is no flow X->Y."),
        ('"' + "x" * 20_000 + '"', 413, "That is too long for an order."),
    ],
)
def test_what_is_no_order_changes_nothing(page: Page, body: str, status: int, sentence: str) -> None:
    answer = page.ask("/api/orders", "POST", body, Authorization=BEARER)
    assert answer.status == status and (not sentence or answer.json()["error"] == sentence)
    assert page.ordered == []
