"""Keeps the token of a cluster's OAUTHBEARER log-in; made by `kafka.security.sasl` for kafka-python's mechanism.

A token is shared by all connections of a process, and renewed when 80 % of its life are over
(`sasl.login.refresh.window.factor`).
"""

import threading
import time
from functools import cache

from kafka.net.sasl.oauth import AbstractTokenProvider

from sparkmirror.kafka.own_tokens import own_extensions
from sparkmirror.kafka.security.oauth import OAuthSettings, obtain_token

_RENEW_SHARE = 0.8


@cache
def token_provider(settings: OAuthSettings) -> "TokenProvider":
    """The one provider of a process for these settings, so that its connections share a token."""
    return TokenProvider(settings)


class TokenProvider(AbstractTokenProvider):
    """Gives kafka-python a token that is still valid."""

    def __init__(self, settings: OAuthSettings) -> None:
        super().__init__()
        self._settings = settings
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = 0.0

    def token(self) -> str:
        """Raises AuthenticationFailed when the endpoint gives none."""
        with self._lock:
            if time.time() >= self._renew_at:
                self._token, life_seconds = obtain_token(self._settings)
                self._renew_at = time.time() + life_seconds * _RENEW_SHARE
            return self._token

    def extensions(self) -> dict[str, str]:
        if self._settings.own:
            return own_extensions(self._settings.own, self._settings.properties)
        return dict(self._settings.extensions)
