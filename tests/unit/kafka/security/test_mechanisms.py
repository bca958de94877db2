"""Log-ins at a port that is not, or no longer, the broker it should be; by both kinds of connections."""

import base64
from collections.abc import Callable

import pytest
from tests.unit.kafka.login_server import login_server

from sparkmirror.errors import AuthenticationFailed
from sparkmirror.kafka.connection import ClusterConnection
from sparkmirror.kafka.settings import ClientSettings, client_settings
from sparkmirror.kafka.wire.link import dial
from sparkmirror.model import Cluster

PASSWORD = "pa55word"


def connect(settings: ClientSettings, port: int) -> None:
    """As the control plane does."""
    ClusterConnection(settings, 60.0).close()
    raise AssertionError(f"port {port} took the log-in")


def connect_for_data(settings: ClientSettings, port: int) -> None:
    dial("127.0.0.1", port, settings).close()
    raise AssertionError(f"port {port} took the log-in")


WAYS = pytest.mark.parametrize("way", [connect, connect_for_data])
Way = Callable[[ClientSettings, int], None]


def settings(port: int, mechanism: str) -> ClientSettings:
    module = f'm required username="mirror" password="{PASSWORD}" unsecuredLoginStringClaim_sub="mirror";'
    client = {"bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": "SASL_PLAINTEXT"}
    return client_settings(Cluster("A", {**client, "sasl.mechanism": mechanism, "sasl.jaas.config": module}), "test")


def first_message(client_first: bytes, iterations: object, salt: bytes = b"salt") -> bytes:
    nonce = client_first.rpartition(b"r=")[2] + b"theirs"
    return b"r=" + nonce + b",s=" + base64.b64encode(salt) + f",i={iterations}".encode()


@WAYS
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("iterations", [1, 4095, -5])
def test_too_few_iterations_are_refused_before_anything_made_of_the_password_is_said(
    way: Way, mechanism: str, iterations: int
) -> None:
    said: list[bytes] = []

    def answer(_: int, message: bytes) -> bytes:
        said.append(message)
        return first_message(message, iterations)

    with login_server(answer) as port, pytest.raises(AuthenticationFailed, match="fewer than 4096") as problem:
        way(settings(port, mechanism), port)
    assert str(iterations) in str(problem.value)
    assert not any(b",p=" in message for message in said), "no proof, from which the password could be guessed"


@WAYS
@pytest.mark.parametrize(
    "message",
    [b"", b"\xff\xfe", b"r=other,s=c2FsdA==,i=4096", b"x", b"r=,s=,i=", b"i=9999999999999999999999", b"r=a,s=*,i=4096"],
    ids=["empty", "not UTF-8", "another nonce", "no pairs", "empty values", "no salt", "not base64"],
)
def test_an_answer_that_is_no_scram_is_one_sentence_without_the_password(way: Way, message: bytes) -> None:
    with login_server(lambda *_: message) as port, pytest.raises(AuthenticationFailed, match="SCRAM") as problem:
        way(settings(port, "SCRAM-SHA-256"), port)
    assert PASSWORD not in str(problem.value)


@WAYS
def test_a_broker_that_does_not_know_the_password_is_not_trusted(way: Way) -> None:
    def answer(round_: int, message: bytes) -> bytes:
        return first_message(message, 4096) if round_ == 0 else b"v=" + base64.b64encode(b"no idea")

    with login_server(answer) as port, pytest.raises(AuthenticationFailed, match="SCRAM"):
        way(settings(port, "SCRAM-SHA-512"), port)


@WAYS
def test_a_log_in_that_never_ends_is_given_up(way: Way) -> None:
    rounds: list[int] = []

    def answer(round_: int, _: bytes) -> bytes:
        rounds.append(round_)
        return b'{"status": "go on"}'

    with login_server(answer) as port, pytest.raises(AuthenticationFailed, match="did not end the log-in"):
        way(settings(port, "OAUTHBEARER"), port)
    assert max(rounds) < 20


@WAYS
def test_plain_is_taken_for_done_only_when_the_broker_says_nothing_more(way: Way) -> None:
    with login_server(lambda *_: b"more?") as port, pytest.raises(AuthenticationFailed):
        way(settings(port, "PLAIN"), port)
