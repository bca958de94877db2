"""kafka-python's SASL mechanisms with bounds: what is at the other end may be no broker, or no longer ours.

Taken by both kinds of connections: `kafka.sasl` registers them in kafka-python's own table.
"""

from typing import Any, Final

from kafka.net.sasl import register_sasl_mechanism
from kafka.net.sasl.gssapi import SaslMechanismGSSAPI
from kafka.net.sasl.oauth import SaslMechanismOAuth
from kafka.net.sasl.plain import SaslMechanismPlain
from kafka.net.sasl.scram import SaslMechanismScram

from sparkmirror.errors import AuthenticationFailed

ITERATIONS_MIN: Final = 4096
"""As Kafka's own client asks for (RFC 7677)."""
_ROUNDS_MAX: Final = 10
"""Kerberos takes four at most, all others fewer."""
_HINT: Final = "Check that bootstrap.servers leads to your own brokers, and over TLS."


class _Bounded:
    """How often such a log-in may be answered."""

    _rounds = 0

    def auth_bytes(self) -> bytes:
        """Raises AuthenticationFailed for a log-in that does not end."""
        self._rounds += 1
        if self._rounds > _ROUNDS_MAX:
            raise AuthenticationFailed(f"The broker's log-in goes on and on: {_ROUNDS_MAX} rounds and no end.", _HINT)
        said: bytes = super().auth_bytes()  # type: ignore[misc]
        return said


class Plain(_Bounded, SaslMechanismPlain):
    """Name and password as they are."""


class OAuthBearer(_Bounded, SaslMechanismOAuth):
    """A token; the broker says nothing, or why not."""


class Gssapi(_Bounded, SaslMechanismGSSAPI):
    """Kerberos."""


class Scram(_Bounded, SaslMechanismScram):
    """With a floor under the iterations: an answer made with few lets whoever asked for it guess the password."""

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
        told = next((pair[2:] for pair in message.decode().split(",") if pair.startswith("i=")), "")
        if int(told) < ITERATIONS_MIN:
            sentence = f"The broker asks for {int(told)} iterations of SCRAM, fewer than {ITERATIONS_MIN}."
            raise AuthenticationFailed(sentence, f"{_HINT} Kafka itself makes no credentials with fewer.")


_MECHANISMS: Final[dict[str, Any]] = {
    "PLAIN": Plain,
    "SCRAM-SHA-256": Scram,
    "SCRAM-SHA-512": Scram,
    "OAUTHBEARER": OAuthBearer,
    "GSSAPI": Gssapi,
}


def register_mechanisms() -> None:
    """Puts them in place of kafka-python's own. Called before each connection; the same each time."""
    for name, mechanism in _MECHANISMS.items():
        register_sasl_mechanism(name, mechanism, overwrite=True)
