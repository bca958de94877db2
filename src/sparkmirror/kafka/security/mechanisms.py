"""kafka-python's SASL mechanisms, with bounds on what the peer sends, because the peer may be no broker; and its token
provider.

`kafka.security.sasl` registers the mechanisms in kafka-python's own table, so both kinds of connections use them. All
connections of a process share one token of OAUTHBEARER, which is renewed when 80 % of its life are over
(`sasl.login.refresh.window.factor`).
"""

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.gssapi import SaslMechanismGSSAPI
from kafka.net.sasl.msk import AwsMskIamClient, SaslMechanismAwsMskIam
from kafka.net.sasl.oauth import AbstractTokenProvider, SaslMechanismOAuth
from kafka.net.sasl.plain import SaslMechanismPlain
from kafka.net.sasl.scram import SaslMechanismScram

from sparkmirror.clock import SYSTEM_CLOCK, Clock
from sparkmirror.errors import AuthenticationFailed
from sparkmirror.kafka.security.msk import MECHANISM as MSK
from sparkmirror.kafka.security.msk import MskCredentials
from sparkmirror.kafka.security.oauth import OAuthSettings, obtain_token
from sparkmirror.kafka.security.own_tokens import own_extensions

log = logging.getLogger(__name__)

ITERATIONS_MIN: Final = 4096
"""The minimum that Kafka's own client demands (RFC 7677)."""
_ROUNDS_MAX: Final = 10
"""Kerberos takes four at most, all others fewer."""
_CODE: Final = re.compile(r"(?:Major|Minor) \([0-9]+\): ")
_HINT: Final = "Check that bootstrap.servers leads to your own brokers, and over TLS."


class _Bounded:
    """Limits the number of rounds of a log-in."""

    _rounds = 0

    def auth_bytes(self) -> bytes:
        """Raises AuthenticationFailed for a log-in that does not end."""
        self._rounds += 1
        if self._rounds > _ROUNDS_MAX:
            raise AuthenticationFailed(f"The broker did not end the log-in within {_ROUNDS_MAX} rounds.", _HINT)
        said: bytes = super().auth_bytes()  # type: ignore[misc]
        return said


class Plain(_Bounded, SaslMechanismPlain):
    """Name and password as they are."""


class OAuthBearer(_Bounded, SaslMechanismOAuth):
    """A token; the broker says nothing, or why not."""


class Gssapi(_Bounded, SaslMechanismGSSAPI):
    """Kerberos. Its own error message says what is missing: a ticket, a KDC, the brokers' principal."""

    def __init__(self, **config: Any) -> None:
        """Raises AuthenticationFailed without a ticket for the broker."""
        with _told_by_kerberos():
            super().__init__(**config)

    def receive(self, auth_bytes: bytes) -> None:
        """Raises AuthenticationFailed for what no broker that has the service's key would say."""
        with _told_by_kerberos():
            super().receive(auth_bytes)


@contextmanager
def _told_by_kerberos() -> Iterator[None]:
    from gssapi.exceptions import GSSError

    try:
        yield
    except GSSError as problem:
        said = _CODE.sub("", " ".join(str(problem).split()))
        sentence = f"Kerberos does not let us log in: {said}."
        hint = "Get a ticket with kinit, or set KRB5_CLIENT_KTNAME to a keytab, where the mirror and its executors run."
        raise AuthenticationFailed(sentence, hint) from None


class MskIam(_Bounded, SaslMechanismAwsMskIam):
    """kafka-python's signature with credentials of our own: its own takes neither a role nor the region of the host."""

    def __init__(self, **config: Any) -> None:
        self.host: str = config["host"]
        # kafka-python's clients take no setting that they do not know: this one stands for what gives credentials.
        self._credentials: MskCredentials = config["sasl_oauth_token_provider"]
        self._auth, self._is_done, self._is_authenticated = None, False, False

    def _build_client(self) -> AwsMskIamClient:
        found = self._credentials.current()
        region = self._credentials.region(self.host)
        return AwsMskIamClient(self.host, found.access_key, found.secret_key, region, found.token)


class Scram(_Bounded, SaslMechanismScram):
    """SCRAM with a minimum of iterations: an answer made with few lets the peer guess the password."""

    def receive(self, auth_bytes: bytes) -> bool:
        """Raises AuthenticationFailed for what a broker that knows the password would not say."""
        try:
            if self._state == 0:
                self._check_iterations(bytes(auth_bytes))
            done: bool = super().receive(auth_bytes)
        except (ValueError, KeyError, TypeError, OverflowError):
            sentence = f"The broker's answer to {self.mechanism} is not that of one that knows the password."
            raise AuthenticationFailed(sentence, _HINT) from None
        return done

    def _check_iterations(self, message: bytes) -> None:
        iterations = next((pair[2:] for pair in message.decode().split(",") if pair.startswith("i=")), "")
        if int(iterations) < ITERATIONS_MIN:
            sentence = f"The broker asks for {int(iterations)} iterations of SCRAM, fewer than {ITERATIONS_MIN}."
            raise AuthenticationFailed(sentence, f"{_HINT} Kafka itself makes no credentials with fewer.")


_MECHANISMS: Final[dict[str, Any]] = {
    "PLAIN": Plain,
    "SCRAM-SHA-256": Scram,
    "SCRAM-SHA-512": Scram,
    "OAUTHBEARER": OAuthBearer,
    "GSSAPI": Gssapi,
    MSK: MskIam,
}


def register_mechanisms() -> None:
    """Puts them in place of kafka-python's own. Called before each connection; the same each time."""
    for name, mechanism in _MECHANISMS.items():
        register_sasl_mechanism(name, mechanism, overwrite=True)


_RENEW_SHARE = 0.8
_AGAIN_SECONDS = 10.0
_MARGIN_SECONDS = 5.0
"""A token that ends sooner may have ended when the broker looks at it."""


@cache
def token_provider(settings: OAuthSettings) -> "TokenProvider":
    """The one provider of a process for these settings, so that its connections share a token."""
    return TokenProvider(settings)


class TokenProvider(AbstractTokenProvider):
    """Gives kafka-python a token that is still valid."""

    def __init__(self, settings: OAuthSettings, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__()
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = 0.0
        self._ends_at = 0.0

    def token(self) -> str:
        """Where the endpoint gives no new one, the last one while it lives. Raises AuthenticationFailed after that."""
        with self._lock:
            if self._now() >= self._renew_at:
                self._renew()
            return self._token

    def _renew(self) -> None:
        try:
            self._token, life_seconds = obtain_token(self._settings, self._clock)
        except AuthenticationFailed as problem:
            left_seconds = self._ends_at - self._now()
            if left_seconds < _MARGIN_SECONDS:
                raise
            log.warning("A token is not renewed, and the last one ends in %.0f s: %s", left_seconds, problem)
            self._renew_at = self._now() + min(_AGAIN_SECONDS, left_seconds - _MARGIN_SECONDS)
            return
        now = self._now()
        self._renew_at, self._ends_at = now + life_seconds * _RENEW_SHARE, now + life_seconds

    def _now(self) -> float:
        """Seconds since 1970: a token's end is a date."""
        return self._clock.time_ns() / 1e9

    def extensions(self) -> dict[str, str]:
        if self._settings.own:
            return own_extensions(self._settings.own, self._settings.properties)
        return dict(self._settings.extensions)
