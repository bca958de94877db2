"""OAuth settings as Java files write them, and tokens from an endpoint of our own."""

import base64
import json
import time
from collections.abc import Iterator
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
