"""OAuth settings as Java files write them, and tokens from an endpoint of our own."""

import base64
import json
import pickle
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from tests.manual_clock import ManualClock
from tests.token_endpoint import ID, SECRET, TokenEndpoint

from sparkmirror.errors import AuthenticationFailed, ConfigError
from sparkmirror.kafka.security.mechanisms import TokenProvider
from sparkmirror.kafka.security.oauth import OAuthSettings, oauth_settings, obtain_token
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
    clock = ManualClock()
    brief = TokenProvider(settings(endpoint), clock)
    assert brief.token() == "t1"
    clock.now += 0.02
    assert brief.token() == "t2"


def test_a_token_that_lives_is_used_while_the_endpoint_gives_no_new_one(
    endpoint: TokenEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    endpoint.answers = [(200, {"access_token": "t0", "expires_in": 100})]
    provider = TokenProvider(settings(endpoint), clock)
    assert provider.token() == "t0"
    endpoint.answers = [(400, {}), (200, {"access_token": "t1", "expires_in": 100}), (400, {})]
    clock.now += 81
    assert [provider.token() for _ in range(3)] == ["t0"] * 3, "asked once in ten seconds"
    assert caplog.messages[0].startswith(
        "A token is not renewed, and the last one ends in 19 s: The OAuth token endpoint"
    )
    clock.now += 11
    assert provider.token() == "t1"
    clock.now += 96
    with pytest.raises(AuthenticationFailed):
        provider.token()


def test_an_endpoint_in_trouble_is_asked_again(endpoint: TokenEndpoint) -> None:
    endpoint.answers = [(503, {}), (200, {"access_token": "t", "expires_in": 9})]
    clock = ManualClock()
    began = clock.now
    assert obtain_token(settings(endpoint), clock) == ("t", 9.0)
    assert clock.now > began, "not at once"


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
def test_what_cannot_work_is_reported_with_its_key(client: dict[str, str], options: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        oauth_settings(client, options)
    assert caught.value.key == key
    assert SECRET not in str(caught.value)


ASSERTION = "sasl.oauthbearer.assertion."
KAFKAS = "org.apache.kafka.common.security.oauthbearer."
KEYS: dict[str, Callable[[], rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey]] = {
    "RS256": lambda: rsa.generate_private_key(65537, 2048),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
}


def write_key(file: Path, key: PrivateKeyTypes, passphrase: str = "") -> Path:
    lock = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock))
    return file


def asserted(endpoint: TokenEndpoint, key_file: Path, **settings: str) -> dict[str, str]:
    own = {f"{ASSERTION}{name.replace('_', '.')}": value for name, value in settings.items()}
    return {URL: endpoint.url, f"{ASSERTION}private.key.file": str(key_file), f"{ASSERTION}claim.iss": "mirror", **own}


@pytest.mark.parametrize("algorithm", KEYS)
def test_a_signed_assertion_stands_for_the_clients_secret(
    endpoint: TokenEndpoint, tmp_path: Path, algorithm: str
) -> None:
    key = KEYS[algorithm]()
    endpoint.public_key = key.public_key()
    client = asserted(
        endpoint, write_key(tmp_path / "key.pem", key, "pass phrase"), algorithm=algorithm, claim_aud="https://idp",
        claim_sub="me", claim_jti_include="true", private_key_passphrase="pass phrase",
    )  # fmt: skip
    found = oauth_settings(client, {"clientId": ID, "scope": "kafka"})
    assert obtain_token(found)[0].count(".") == 2
    form = dict(urllib.parse.parse_qsl(endpoint.asked[-1]))
    assert (form["grant_type"], form["client_id"], form["scope"]) == ("client_credentials", ID, "kafka")
    assert form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    (claims,) = endpoint.asserted
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("mirror", "me", "https://idp")
    assert (claims["exp"] - claims["iat"], claims["iat"] - claims["nbf"]) == (300, 60)
    assert len(claims["jti"]) == 36
    assert "pass phrase" not in repr(found)
    endpoint.public_key = KEYS[algorithm]().public_key()
    with pytest.raises(AuthenticationFailed, match=r"answered 401 \(invalid_client\)"):
        obtain_token(found)


def test_an_assertion_may_be_what_is_granted_and_a_template_adds_to_it(endpoint: TokenEndpoint, tmp_path: Path) -> None:
    key = KEYS["RS256"]()
    endpoint.public_key = key.public_key()
    template = tmp_path / "template.json"
    template.write_text('{"header": {"kid": "7", "alg": "none"}, "payload": {"client": "east", "iss": "nobody"}}')
    client = asserted(
        endpoint, write_key(tmp_path / "key.pem", key), claim_exp_seconds="20", claim_nbf_seconds="0",
        template_file=str(template),
    )  # fmt: skip
    found = oauth_settings({**client, "sasl.oauthbearer.jwt.retriever.class": f"{KAFKAS}JwtBearerJwtRetriever"}, {})
    obtain_token(found)
    form = dict(urllib.parse.parse_qsl(endpoint.asked[-1]))
    assert form.keys() == {"grant_type", "assertion"}
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    (claims,) = endpoint.asserted
    assert (claims["client"], claims["iss"], claims["exp"] - claims["nbf"]) == ("east", "mirror", 20)
    assert '"kid": "7"' in base64.urlsafe_b64decode(form["assertion"].split(".")[0] + "===").decode()
    template.write_text("[]")
    with pytest.raises(AuthenticationFailed, match="is no such JSON"):
        obtain_token(found)


def test_an_assertion_made_by_others_is_read_for_each_token(endpoint: TokenEndpoint, tmp_path: Path) -> None:
    endpoint.answers = [(200, {"access_token": "t", "expires_in": 9})]
    file = tmp_path / "assertion"
    found = oauth_settings({URL: endpoint.url, f"{ASSERTION}file": str(file)}, {})
    for text in ("a.b.c", "d.e.f"):
        file.write_text(f"{text}\n")
        obtain_token(found)
        assert f"client_assertion={text}&" in endpoint.asked[-1]
    file.unlink()
    with pytest.raises(AuthenticationFailed, match=r"assertion .* cannot be read: No such file"):
        obtain_token(found)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"algorithm": "HS256"}, "assertion.algorithm=HS256 is not supported"),
        ({"private_key_file": " "}, "assertion.private.key.file is missing"),
        ({"claim_exp_seconds": "soon"}, "claim.exp.seconds=soon is not a number of seconds"),
    ],
)
def test_an_assertion_that_cannot_be_made_is_reported_before_the_start(
    endpoint: TokenEndpoint, settings: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        oauth_settings(asserted(endpoint, Path("key.pem"), **settings), {})


def test_a_key_that_does_not_fit_is_one_sentence(endpoint: TokenEndpoint, tmp_path: Path) -> None:
    file = write_key(tmp_path / "key.pem", KEYS["RS256"](), "pass phrase")
    with pytest.raises(AuthenticationFailed, match="is no key for ES256"):
        obtain_token(
            oauth_settings(asserted(endpoint, file, algorithm="ES256", private_key_passphrase="pass phrase"), {})
        )
    with pytest.raises(AuthenticationFailed, match=r"private key .* cannot be read") as caught:
        obtain_token(oauth_settings(asserted(endpoint, file, private_key_passphrase="wr0ng"), {}))
    assert "wr0ng" not in str(caught.value)


def test_id_and_secret_may_be_encoded_for_the_header(endpoint: TokenEndpoint) -> None:
    endpoint.answers = [(200, {"access_token": "t", "expires_in": 9})]
    client = {URL: endpoint.url, "sasl.oauthbearer.header.urlencode": "true"}
    obtain_token(oauth_settings(client, {"clientId": "a:b", "clientSecret": "c d"}))
    assert base64.b64decode(endpoint.logins[-1].removeprefix("Basic ")) == b"a%3Ab:c+d"


OWN = """
class Tokens:
    made = 0

    def configure(self, properties):
        self.realm = properties["realm"]

    def token(self):
        Tokens.made += 1
        return f"{self.realm}-{Tokens.made}"

    def extensions(self):
        return {"pool": 7}


class Broken:
    def token(self):
        raise RuntimeError("hunter2")


class Empty:
    def token(self):
        return None


class NoTokens:
    pass
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    module = f"own_tokens_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    return module


def test_a_class_of_ones_own_gives_tokens_and_is_asked_for_a_new_one_in_time(own: str) -> None:
    provider = TokenProvider(oauth_settings({HANDLER: f"{own}:Tokens"}, {"realm": "east"}))
    assert [provider.token(), provider.token()] == ["east-1", "east-1"], "its life is five minutes"
    assert provider.extensions() == {"pool": "7"}
    provider._renew_at = 0.0
    assert provider.token() == "east-2"
    assert pickle.loads(pickle.dumps(oauth_settings({HANDLER: f"{own}:Tokens"}, {"realm": "east"}))).own


@pytest.mark.parametrize("name", ["Broken", "Empty"])
def test_a_class_that_gives_no_token_is_reported_without_its_message(own: str, name: str) -> None:
    with pytest.raises(AuthenticationFailed, match=f"{own}:{name} gives no token") as caught:
        obtain_token(oauth_settings({HANDLER: f"{own}:{name}"}, {}))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NoTokens", "lacks token"),
        ("Nobody", "has no such class"),
        ("Tokens", "raised KeyError"),
    ],
)
def test_a_class_that_cannot_be_used_is_reported_before_the_start(own: str, name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        oauth_settings({HANDLER: f"{own}:{name}"}, {})
