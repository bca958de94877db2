"""The server of the status page: what it answers to whom."""

import socket
import threading
import time

import pytest
from tests.unit.web.conftest import READ_ONLY_TOKEN, TOKEN, Served

from sparkmirror.config.flow.settings import StatusSettings
from sparkmirror.config.types import Address
from sparkmirror.errors import ClusterUnreachable, EnvironmentProblem
from sparkmirror.web.app import Document
from sparkmirror.web.health import Health
from sparkmirror.web.server import PageServer, ProbesServer

BEARER, READER = f"Bearer {TOKEN}", f"Bearer {READ_ONLY_TOKEN}"


def fail() -> tuple[bytes, str]:
    raise ClusterUnreachable("Cluster B does not answer.", "Is it up?")


def break_down() -> tuple[bytes, str]:
    raise RuntimeError("a slip of ours")


@pytest.fixture(scope="module")
def documents() -> dict[str, Document]:
    return {
        "/metrics": lambda: (b"up 1\n", "text/plain; version=0.0.4"),
        "/away": fail,
        "/broken": break_down,
    }


def test_the_page_comes_with_headers_that_let_nothing_foreign_in(local: Served) -> None:
    answer = local.ask("/")
    assert answer.status == 200
    assert "<title>SparkMirror</title>" in answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert "server" not in answer.headers
    assert local.ask("/static/main.js").headers["cache-control"] == "no-cache"


def test_a_document_is_what_its_maker_says(local: Served) -> None:
    answer = local.ask("/metrics")
    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, b"up 1\n", "text/plain; version=0.0.4")


def test_what_a_cluster_did_not_do_is_reported_in_a_sentence(local: Served) -> None:
    answer = local.ask("/away")
    assert answer.status == 503
    assert answer.json() == {"error": "Cluster B does not answer.", "hint": "Is it up?"}


def test_a_slip_of_ours_is_logged_in_a_line_and_answered_without_its_words(
    local: Served, caplog: pytest.LogCaptureFixture
) -> None:
    answer = local.ask("/broken")
    assert answer.status == 500 and "slip" not in answer.text
    assert "The status page failed at /broken: RuntimeError: a slip of ours" in caplog.text


def test_what_is_not_there_is_reported_as_json(local: Served) -> None:
    answer = local.ask("/nowhere")
    assert (answer.status, answer.json()["error"]) == (404, "Not Found.")
    assert local.ask("/static/../server.py").status == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[::1", "10.0.0.1"])
def test_a_name_that_is_not_loopbacks_gets_nothing_there(local: Served, host: str) -> None:
    assert local.ask("/metrics", Host=host).status == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080", "127.8.8.8"])
def test_names_of_loopback_are_known_whatever_the_port_that_was_forwarded(local: Served, host: str) -> None:
    assert local.ask("/metrics", Host=host).status == 200


def test_an_order_needs_the_token_to_the_letter(local: Served) -> None:
    refused = local.ask("/metrics", "POST")
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
    for wrong in ("Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", "Bearer \u00e9"):
        assert local.ask("/metrics", "POST", Authorization=wrong).status == 401
    assert local.ask("/metrics", "POST", Authorization=BEARER).status == 405  # it is let in, and finds no such order


def test_another_sites_page_gives_no_orders_even_with_the_token(local: Served) -> None:
    for foreign in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"}):
        assert local.ask("/metrics", "POST", Authorization=BEARER, **foreign).status == 403
    own = f"http://127.0.0.1:{local.server.address.port}"
    assert local.ask("/metrics", "POST", Authorization=BEARER, Origin=own).status == 405


def test_without_a_token_in_the_file_nothing_is_changed(tokenless: Served) -> None:
    for given in ("Bearer ", "Bearer x", ""):
        answer = tokenless.ask("/metrics", "POST", Authorization=given)
        assert answer.status == 403 and "`status.token`" in answer.json()["error"]


def test_beyond_loopback_nothing_is_shown_without_the_token(public: Served) -> None:
    assert public.ask("/metrics").status == 401
    assert public.ask("/metrics", Authorization=BEARER).status == 200
    assert public.ask("/").status == public.ask("/healthz").status == 200
    assert public.ask("/metrics", Authorization=BEARER, Host="mirror.example").status == 200


def test_the_token_that_only_shows_gives_no_orders(public: Served, local: Served) -> None:
    assert public.ask("/metrics", Authorization=READER).status == 200
    for served in (public, local):
        refused = served.ask("/metrics", "POST", Authorization=READER)
        assert (refused.status, refused.json()["error"]) == (403, "This token only shows.")
    assert public.ask("/metrics", Authorization=f"Basic {READ_ONLY_TOKEN}").status == 401


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "http://]"])
def test_an_origin_that_is_no_address_is_refused_as_the_askers_slip(local: Served, origin: str) -> None:
    assert local.ask("/metrics", "POST", Authorization=BEARER, Origin=origin).status == 400


def test_probes_on_a_port_of_their_own_are_all_there_is(public: Served) -> None:
    settings = StatusSettings(public.server.address, TOKEN, probes_listen=Address("127.0.0.1", 0))
    health = Health()
    with ProbesServer(settings, health).start() as server:
        probes = Served(server, health)
        assert (probes.ask("/healthz").status, probes.ask("/readyz").text) == (200, "the mirror is starting\n")
        for path in ("/", "/metrics", "/static/main.js", "/api/state"):
            assert probes.ask(path, Authorization=BEARER).status == 404
        assert probes.ask("/healthz", "POST", Authorization=BEARER).status == 405
        health.beat()
        assert probes.ask("/readyz").status == 200
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = Address("127.0.0.1", other.getsockname()[1])
        with pytest.raises(EnvironmentProblem, match="The probes' port cannot listen") as problem:
            ProbesServer(StatusSettings(probes_listen=taken), health)
    assert "status.probes.listen" in problem.value.hint


def test_health_is_the_run_loops_and_readiness_the_flows() -> None:
    now = 100.0
    health = Health(lambda: now)
    assert (health.problem(), health.waiting()) == ("", "the mirror is starting")
    health.beat(("A->B: it is starting",))
    assert (health.problem(), health.waiting()) == ("", "A->B: it is starting")
    health.beat()
    assert (health.problem(), health.waiting()) == ("", "")
    now = 161.0
    assert health.problem() == "the run's loop has stood still for 61 s"
    health.stopping()
    assert (health.problem(), health.waiting()) == ("", "the mirror is stopping")


def test_health_and_readiness_are_asked_for_by_path(tokenless: Served) -> None:
    assert (tokenless.ask("/healthz").status, tokenless.ask("/healthz").text) == (200, "ok\n")
    assert (tokenless.ask("/readyz").status, tokenless.ask("/readyz").text) == (503, "the mirror is starting\n")
    tokenless.health.beat()
    assert tokenless.ask("/readyz").status == 200


def test_a_port_that_is_taken_is_reported_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = Address("127.0.0.1", other.getsockname()[1])
        with pytest.raises(EnvironmentProblem, match=f"cannot listen at {address}: Address already in use") as problem:
            PageServer(StatusSettings(address), Health(), {})
    assert "status.listen" in problem.value.hint


def test_closing_leaves_no_thread_and_no_port() -> None:
    before = set(threading.enumerate())
    server = PageServer(StatusSettings(Address("127.0.0.1", 0)), Health(), {}).start()
    port = server.address.port
    server.close()
    deadline = time.monotonic() + 60
    while set(threading.enumerate()) - before:
        assert time.monotonic() < deadline, "the server's thread is still there"
        time.sleep(0.01)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 60)
