"""Tokens for SASL/OAUTHBEARER: by client credentials (KIP-768) or a signed assertion (KIP-1139, KIP-1258), from a file,
from a class of the user's, or unsecured ones for tests.

`kafka.security.sasl` makes the settings from a cluster's properties, `kafka.security.mechanisms` asks for tokens.
"""

import base64
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.errors import AuthenticationFailed, ConfigError
from sparkmirror.kafka.security.own_tokens import NAMES_OWN_CLASS, ask_own, check_own_tokens
from sparkmirror.kafka.security.token_request import (
    ANSWER_BYTES_MAX,
    Assertion,
    assertion_settings,
    fetch,
    make_assertion,
)

TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
_HANDLER = "sasl.login.callback.handler.class"
_KAFKAS = frozenset(
    f"org.apache.kafka.common.security.oauthbearer.{name}"
    for name in ("OAuthBearerLoginCallbackHandler", "secured.OAuthBearerLoginCallbackHandler")
)
_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
_BY_CONFIGURATION, _BY_CREDENTIALS, _BY_FILE, _BY_ASSERTION = (
    f"org.apache.kafka.common.security.oauthbearer.{name}JwtRetriever"
    for name in ("Default", "ClientCredentials", "File", "JwtBearer")
)
_ASSERTED_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ASSERTED_CLIENT = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_STRIMZIS = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
_HINT = (
    f'Set {TOKEN_URL}, and clientId="..." clientSecret="..." in sasl.jaas.config after '
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required."
)
_OWN_HINT = "Write it in Python and name it module:Class, see docs/security.md."
_ATTEMPTS = 3
_PAUSE_SECONDS = 0.2
_LIFE_SECONDS = 300.0
_LIFE_SECONDS_MAX = 7 * 86_400.0
_REASON_CHARACTERS_MAX = 120


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    """The source of tokens: `url` (http, https or file); without one, `claims` make an unsecured token (JWS `none`).

    `token` is a fixed one, `extensions` are SASL extensions (KIP-342). `assertion` takes the place of the secret, or is
    itself the grant (`is_grant`). `own` names a class of the user's, which gets `properties`. `repr` has no secrets.
    """

    url: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    trust_pem_file: str = ""
    timeout_seconds: float = 10.0
    token: str = field(default="", repr=False)
    claims: tuple[tuple[str, str], ...] = ()
    extensions: tuple[tuple[str, str], ...] = ()
    assertion: Assertion | None = None
    is_grant: bool = False
    encodes_login: bool = False
    own: str = ""
    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)


def oauth_settings(client: Mapping[str, str], jaas: Mapping[str, str]) -> OAuthSettings:
    """Settings from the client properties and the options of the login module. Raises ConfigError."""
    handler = client.get(_HANDLER, "").strip()
    if handler == _STRIMZIS:
        return _strimzis(jaas)
    if NAMES_OWN_CLASS(handler):
        properties = {**client, **jaas}
        check_own_tokens(_HANDLER, handler, properties)
        return OAuthSettings(own=handler, properties=tuple(sorted(properties.items())))
    if handler and handler not in _KAFKAS:
        raise ConfigError(
            f"{_HANDLER}={handler} is a Java class, which cannot be loaded here.", _OWN_HINT, key=_HANDLER
        )
    extensions = _after("extension_", jaas)
    if url := client.get(TOKEN_URL, "").strip():
        return _checked(_by_endpoint(url, client, jaas, extensions))
    claims = _after("unsecuredLoginStringClaim_", jaas)
    if handler or not dict(claims).get("sub"):
        raise ConfigError(f"{TOKEN_URL} is missing, and OAUTHBEARER needs it.", _HINT, key=TOKEN_URL)
    return OAuthSettings(claims=claims, extensions=extensions)


def _by_endpoint(
    url: str, client: Mapping[str, str], jaas: Mapping[str, str], extensions: tuple[tuple[str, str], ...]
) -> OAuthSettings:
    retriever = client.get(_RETRIEVER, "").strip() or _BY_CONFIGURATION
    if retriever not in (_BY_CONFIGURATION, _BY_CREDENTIALS, _BY_FILE, _BY_ASSERTION):
        raise ConfigError(
            f"{_RETRIEVER}={retriever} is a Java class, which cannot be loaded here.", _OWN_HINT, key=_RETRIEVER
        )
    is_grant = retriever == _BY_ASSERTION
    return OAuthSettings(
        url,
        jaas.get("clientId") or client.get("sasl.oauthbearer.client.credentials.client.id", ""),
        jaas.get("clientSecret") or client.get("sasl.oauthbearer.client.credentials.client.secret", ""),
        jaas.get("scope") or client.get("sasl.oauthbearer.scope", ""),
        jaas.get("ssl.truststore.location", ""),
        extensions=extensions,
        assertion=None if url.startswith("file:") else assertion_settings(client, required=is_grant),
        is_grant=is_grant,
        encodes_login=client.get("sasl.oauthbearer.header.urlencode", "").strip().lower() == "true",
    )


def sends_secret_in_clear(settings: OAuthSettings) -> bool:
    """Whether requests go to the endpoint in plain HTTP, and not on this machine."""
    where = urllib.parse.urlsplit(settings.url)
    if where.scheme != "http" or settings.token:
        return False
    try:
        return not ip_address(where.hostname or "").is_loopback
    except ValueError:
        return where.hostname != "localhost"


def _strimzis(jaas: Mapping[str, str]) -> OAuthSettings:
    return _checked(
        OAuthSettings(
            jaas.get("oauth.token.endpoint.uri", ""),
            jaas.get("oauth.client.id", ""),
            jaas.get("oauth.client.secret", ""),
            jaas.get("oauth.scope", ""),
            jaas.get("oauth.ssl.truststore.location", ""),
            token=jaas.get("oauth.access.token", ""),
        )
    )


def _checked(settings: OAuthSettings) -> OAuthSettings:
    scheme = urllib.parse.urlsplit(settings.url).scheme
    if not settings.token and scheme not in ("http", "https", "file"):
        raise ConfigError("The OAuth token endpoint must be an http, https or file URL.", _HINT, key=TOKEN_URL)
    is_named = bool(settings.assertion or settings.token or (settings.client_id and settings.client_secret))
    if scheme in ("http", "https") and not is_named:
        raise ConfigError("OAUTHBEARER needs a client id and a client secret.", _HINT, key="sasl.jaas.config")
    return settings


def _after(prefix: str, options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((key.removeprefix(prefix), value) for key, value in options.items() if key.startswith(prefix))


def obtain_token(settings: OAuthSettings, clock: Clock = SYSTEM_CLOCK) -> tuple[str, float]:
    """A new token and how long it lives, in seconds. Raises AuthenticationFailed; the message holds no secret."""
    if settings.own:
        own = ask_own(settings.own, settings.properties)
        return own, _life(own, {}, clock)
    if settings.token:
        return settings.token, _life(settings.token, {}, clock)
    if not settings.url:
        return _unsecured(settings.claims, clock), _LIFE_SECONDS
    if settings.url.startswith("file:"):
        return _from_file(settings.url, clock)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            answer = _ask(settings)
            break
        except urllib.error.HTTPError as refused:
            with refused:
                reason = _reason(refused)
            if refused.code < 500 or attempt == _ATTEMPTS:
                raise _failure(settings.url, f"answered {refused.code}{reason}") from None
        except (OSError, ValueError, HTTPException) as problem:
            if attempt == _ATTEMPTS:
                reason = getattr(problem, "reason", "") or str(problem) or type(problem).__name__
                raise _failure(settings.url, f"could not be asked: {reason}") from None
        clock.sleep(_PAUSE_SECONDS * attempt)
    token = answer.get("access_token")
    if not isinstance(token, str) or not token:
        raise _failure(settings.url, "answered without an access_token")
    return token, _life(token, answer, clock)


def _ask(settings: OAuthSettings) -> dict[str, Any]:
    form, headers = _request_of(settings)
    form |= {"scope": settings.scope} if settings.scope else {}
    request = urllib.request.Request(
        settings.url, urllib.parse.urlencode(form).encode(), {**headers, "Accept": "application/json"}
    )
    context = ssl.create_default_context(cafile=settings.trust_pem_file or None)
    found = _read_json(fetch(request, context, settings.timeout_seconds))
    if not isinstance(found, dict):
        raise ValueError("the answer is not a JSON object")
    return found


def _request_of(settings: OAuthSettings) -> tuple[dict[str, str], dict[str, str]]:
    """The form and the headers of a token request."""
    credentials = {"grant_type": "client_credentials"}
    if settings.assertion is None:
        login = [settings.client_id, settings.client_secret]
        if settings.encodes_login:
            login = [urllib.parse.quote_plus(part) for part in login]
        return credentials, {"Authorization": f"Basic {base64.b64encode(':'.join(login).encode()).decode()}"}
    assertion = make_assertion(settings.assertion)
    if settings.is_grant:
        return {"grant_type": _ASSERTED_GRANT, "assertion": assertion}, {}
    form = {"client_assertion_type": _ASSERTED_CLIENT, "client_assertion": assertion, **credentials}
    return form | ({"client_id": settings.client_id} if settings.client_id else {}), {}


def _read_json(text: bytes) -> Any:
    """Raises ValueError, also for what is nested beyond reason."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("the answer is nested too deeply") from None


def _failure(url: str, what: str) -> AuthenticationFailed:
    where = urllib.parse.urlsplit(url)._replace(query="", fragment="")
    host = where._replace(netloc=where.netloc.rpartition("@")[2])
    return AuthenticationFailed(
        f"The OAuth token endpoint {host.geturl()} {what}.",
        "Check clientId and clientSecret in sasl.jaas.config, or the assertion.",
    )


def _reason(refused: urllib.error.HTTPError) -> str:
    """RFC 6749's `error`, such as `invalid_client`; nothing else of the answer, which may repeat what was sent."""
    if 300 <= refused.code < 400:
        return " (redirections are not followed: the secret would go along)"
    try:
        said = str(_read_json(refused.read(ANSWER_BYTES_MAX))["error"])[:_REASON_CHARACTERS_MAX]
    except (ValueError, KeyError, TypeError, OSError, HTTPException):
        return ""
    return f" ({said})" if said.replace("_", "").isalnum() else ""


def _from_file(url: str, clock: Clock) -> tuple[str, float]:
    path = urllib.request.url2pathname(urllib.parse.urlsplit(url).path)
    try:
        with Path(path).open("rb") as file:
            token = file.read(ANSWER_BYTES_MAX).decode().strip()
    except OSError as problem:
        raise AuthenticationFailed(f"The OAuth token file {path} cannot be read: {problem.strerror}.") from None
    except UnicodeDecodeError:
        raise AuthenticationFailed(f"The OAuth token file {path} holds no text.") from None
    return token, _life(token, {}, clock)


def _life(token: str, answer: Mapping[str, Any], clock: Clock) -> float:
    """Seconds: `expires_in` of the answer, else the token's own `exp`; a week at most, whatever is said."""
    if isinstance(seconds := answer.get("expires_in"), int | float):
        return _believable(seconds)
    try:
        claims = token.split(".")[1]
        ends_at = _read_json(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"]
        return _believable(ends_at - clock.time_ns() / 1e9)
    except (ValueError, IndexError, KeyError, TypeError, OverflowError):
        return _LIFE_SECONDS


def _believable(seconds: float) -> float:
    return float(max(0, min(seconds, _LIFE_SECONDS_MAX))) if seconds == seconds else _LIFE_SECONDS


def _unsecured(claims: tuple[tuple[str, str], ...], clock: Clock) -> str:
    """Java's `OAuthBearerUnsecuredLoginCallbackHandler`: for tests, brokers in earnest refuse it."""
    now = clock.time_ns() / 1e9
    body = {**dict(claims), "iat": now, "exp": now + 2 * _LIFE_SECONDS}
    return f"{_encoded({'alg': 'none'})}.{_encoded(body)}."


def _encoded(part: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
