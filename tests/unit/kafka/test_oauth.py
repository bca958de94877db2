"""OAuth settings as Java files write them, and tokens from an endpoint of our own."""

import base64
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.token_endpoint import ID, SECRET, TokenEndpoint

from sparkmirror.errors import AuthenticationFailed, ConfigError
from sparkmirror.kafka.oauth import OAuthSettings, oauth_settings, obtain_token
from sparkmirror.kafka.token import TokenProvider
from sparkmirror.testing.ports import PortReservation

URL = "sasl.oauthbearer.token.endpoint.url"
HANDLER = "sasl.login.callback.handler.class"


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenEndpoint]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with TokenEndpoint() as server:
        yield server


def settings(endpoint: TokenEndpoint, **options: str) -> OAuthSettings:
    return oauth_settings({URL: endpoint.url}, {"clientId": ID, "clientSecret": SECRET, **options})


def test_a_token_is_granted_for_client_credentials(endpoint: TokenEndpoint) -> None:
    endpoint.answers = [(200, {"access_token": "t0ken", "expires_in": 60})]
    assert obtain_token(settings(endpoint, scope="kafka write")) == ("t0ken", 60.0)
    assert endpoint.asked == ["grant_type=client_credentials&scope=kafka+write"]
    endpoint.answers = []
    token, life_seconds = obtain_token(settings(endpoint))
    assert (token.count("."), life_seconds) == (2, 3600.0), "it checks the client's id and secret"


def test_a_token_is_kept_while_it_lives_and_renewed_in_time(endpoint: TokenEndpoint) -> None:
    endpoint.answers = [(200, {"access_token": f"t{at}", "expires_in": life}) for at, life in enumerate((60, 0.01, 60))]
    provider = TokenProvider(settings(endpoint, extension_cluster="lkc-1"))
    assert [provider.token(), provider.token()] == ["t0", "t0"]
    assert provider.extensions() == {"cluster": "lkc-1"}
    brief = TokenProvider(settings(endpoint))
    assert brief.token() == "t1"
    time.sleep(0.02)
    assert brief.token() == "t2"


def test_an_endpoint_in_trouble_is_asked_again(endpoint: TokenEndpoint) -> None:
    endpoint.answers = [(503, {}), (200, {"access_token": "t", "expires_in": 9})]
    assert obtain_token(settings(endpoint)) == ("t", 9.0)


@pytest.mark.parametrize(
    ("status", "answer", "words"),
    [
        (
            401,
            {"error": "invalid_client", "error_description": f"{SECRET} is wrong"},
            r"answered 401 \(invalid_client\)",
        ),
        (400, {"error": f"<{SECRET}>"}, r"answered 400\."),
        (200, {"token": "t"}, "without an access_token"),
    ],
)
def test_a_refusal_is_one_sentence_without_the_secret(
    endpoint: TokenEndpoint, status: int, answer: dict[str, str], words: str
) -> None:
    endpoint.answers = [(status, answer)]
    with pytest.raises(AuthenticationFailed, match=words) as caught:
        obtain_token(settings(endpoint))
    assert endpoint.url in str(caught.value)
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(settings(endpoint))


@contextmanager
def speaking(*pieces: bytes, pause_seconds: float = 0.0) -> Iterator[str]:
    """The URL of a port that says this to whatever it is asked, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    accepted, _ = listener.accept()
                    with accepted, suppress(OSError):
                        accepted.recv(1 << 16)
                        for piece in pieces:
                            accepted.sendall(piece)
                            time.sleep(pause_seconds)
                        accepted.shutdown(socket.SHUT_WR)
                        while accepted.recv(1 << 16):
                            """Until the asker hangs up: what is not read would make a reset of the answer."""

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/token"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(60)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirection_is_not_followed_for_the_secret_would_go_along(endpoint: TokenEndpoint, status: int) -> None:
    moved = f"HTTP/1.1 {status} Moved\r\nLocation: {endpoint.url}\r\nContent-Length: 0\r\n\r\n".encode()
    with (
        speaking(moved) as url,
        pytest.raises(AuthenticationFailed, match=f"answered {status} .redirections are not followed"),
    ):
        obtain_token(OAuthSettings(url, ID, SECRET))
    assert endpoint.asked == []


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"SSH-2.0-x\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 60_000,
        b'HTTP/1.1 200 OK\r\n\r\n{"access_token": "' + b"t" * 100_000 + b'"}',
        b"HTTP/1.1 500 X\r\n\r\n" + b"[" * 60_000,
        b"HTTP/1.1 401 X\r\n\r\n" + b"[" * 60_000,
        b"HTTP/1.1 400 X\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=[
        "silence", "not HTTP", "cut short", "200 headers", "odd chunks", "nested", "long", "a nested 500",
        "a nested 401", "an odd 400",
    ],
)  # fmt: skip
def test_whatever_an_endpoint_says_is_a_token_or_one_sentence(monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with speaking(said) as url, pytest.raises(AuthenticationFailed, match="The OAuth token endpoint") as caught:
        obtain_token(OAuthSettings(url, ID, SECRET))
    assert SECRET not in str(caught.value) and len(str(caught.value)) < 400


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_an_endpoint_that_trickles_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch, begin: bytes) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with (
        speaking(begin, *([b"X"] * 1200), pause_seconds=0.1) as url,
        pytest.raises(AuthenticationFailed, match=r"not there after 0\.3 s"),
    ):
        obtain_token(OAuthSettings(url, ID, SECRET, timeout_seconds=0.3))


@pytest.mark.parametrize("life", ["NaN", "Infinity", "-Infinity", "-1", "1e400", "9" * 400, "true"])
def test_a_tokens_life_is_never_absurd(monkeypatch: pytest.MonkeyPatch, life: str) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    answer = f'HTTP/1.1 200 OK\r\n\r\n{{"access_token": "t", "expires_in": {life}}}'
    with speaking(answer.encode()) as url:
        token, seconds = obtain_token(OAuthSettings(url, ID, SECRET))
    assert token == "t" and 0 <= seconds <= 7 * 86_400


def test_a_token_file_is_read_no_further_than_a_token_goes(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(AuthenticationFailed, match="holds no text"):
        obtain_token(oauth_settings({URL: (tmp_path / "binary").as_uri()}, {}))
    token, _ = obtain_token(oauth_settings({URL: "file:///dev/zero"}, {}))
    assert len(token) <= 64 << 10


def test_an_endpoint_that_is_away_is_named() -> None:
    with PortReservation(1) as nobody, pytest.raises(AuthenticationFailed, match="could not be asked"):
        obtain_token(OAuthSettings(f"http://127.0.0.1:{nobody.ports[0]}/token", ID, SECRET))


def test_a_token_may_come_from_a_file(tmp_path: Path) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": time.time() + 100}).encode()).decode().rstrip("=")
    file = tmp_path / "token"
    file.write_text(f"e30.{claims}.x\n")
    token, life_seconds = obtain_token(oauth_settings({URL: file.as_uri()}, {}))
    assert token == f"e30.{claims}.x"
    assert 90 < life_seconds <= 100
    with pytest.raises(AuthenticationFailed, match="cannot be read"):
        obtain_token(oauth_settings({URL: (tmp_path / "none").as_uri()}, {}))


def test_without_an_endpoint_the_claims_make_an_unsecured_token() -> None:
    token, _ = obtain_token(oauth_settings({}, {"unsecuredLoginStringClaim_sub": "alice"}))
    header, claims, signature = token.split(".")
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "none"}
    assert json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["sub"] == "alice"
    assert signature == ""


def test_javas_and_strimzis_spellings_mean_the_same() -> None:
    kafkas = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
    strimzis = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
    credentials = "sasl.oauthbearer.client.credentials.client"
    wanted = OAuthSettings("https://idp/token", ID, SECRET, "kafka")
    by_jaas = {"clientId": ID, "clientSecret": SECRET, "scope": "kafka"}
    by_keys = {f"{credentials}.id": ID, f"{credentials}.secret": SECRET, "sasl.oauthbearer.scope": "kafka"}
    by_strimzi = {"token.endpoint.uri": wanted.url, "client.id": ID, "client.secret": SECRET, "scope": "kafka"}
    assert oauth_settings({HANDLER: kafkas, URL: wanted.url}, by_jaas) == wanted
    assert oauth_settings({URL: wanted.url, **by_keys}, {}) == wanted
    assert oauth_settings({HANDLER: strimzis}, {f"oauth.{key}": value for key, value in by_strimzi.items()}) == wanted


@pytest.mark.parametrize(
    ("client", "options", "key"),
    [
        ({}, {}, URL),
        ({URL: "ftp://idp/token"}, {"clientId": ID, "clientSecret": SECRET}, URL),
        ({URL: "https://idp/token"}, {"clientId": ID}, "sasl.jaas.config"),
        ({HANDLER: "com.acme.Handler", URL: "https://idp/token"}, {}, HANDLER),
    ],
    ids=["no endpoint", "an odd scheme", "no secret", "a foreign class"],
)
def test_what_cannot_work_is_told_with_its_key(client: dict[str, str], options: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        oauth_settings(client, options)
    assert caught.value.key == key
    assert SECRET not in str(caught.value)
