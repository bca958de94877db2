"""`AWS_MSK_IAM`: logs in to Amazon MSK with AWS credentials, as Amazon's Java module does. Used by
`kafka.security.sasl`.

kafka-python signs; botocore (the extra `msk`) finds and renews credentials where the process runs: environment, files
of ~/.aws, web identity, container or instance. Options are those of Amazon's `IAMLoginModule`.
"""

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from threading import Lock
from typing import Any, Final

from sparkmirror.errors import AuthenticationFailed, ConfigError, EnvironmentProblem

MECHANISM: Final = "AWS_MSK_IAM"
_HANDLER_KEY: Final = "sasl.client.callback.handler.class"
_HANDLER: Final = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
_REGION_OF_HOST: Final = re.compile(r"\.([a-z]{2,3}(?:-[a-z]+)+-[0-9]+)\.amazonaws\.com(?:\.cn)?$")
_HINT: Final = (
    "Give the process AWS credentials, by its role, AWS_ACCESS_KEY_ID, or awsProfileName in sasl.jaas.config."
)


@dataclass(frozen=True, slots=True)
class MskSettings:
    """The credentials to use: those of a profile, or those that the process has; with `role_arn` that role is assumed
    by them."""

    profile: str = ""
    role_arn: str = ""
    role_session: str = ""
    external_id: str = ""
    sts_region: str = ""


def msk_settings(client: Mapping[str, str], jaas: Mapping[str, str]) -> MskSettings:
    """Settings from the client properties and the options of the login module. Raises ConfigError."""
    if client.get("security.protocol", "").strip().upper() != "SASL_SSL":
        raise ConfigError(f"{MECHANISM} takes security.protocol=SASL_SSL.", key="security.protocol")
    handler = client.get(_HANDLER_KEY, "").strip() or _HANDLER
    if handler != _HANDLER:
        hint = f"Leave it out, or name {_HANDLER}."
        raise ConfigError(
            f"{_HANDLER_KEY}={handler} is a Java class, which cannot be loaded here.", hint, key=_HANDLER_KEY
        )
    return MskSettings(
        jaas.get("awsProfileName", ""),
        jaas.get("awsRoleArn", ""),
        jaas.get("awsRoleSessionName", ""),
        jaas.get("awsRoleExternalId", ""),
        jaas.get("awsStsRegion", ""),
    )


@dataclass(frozen=True, slots=True)
class Credentials:
    """Signs one log-in. It has no `repr`, so secrets do not appear in one."""

    access_key: str
    secret_key: str
    token: str | None

    def __repr__(self) -> str:
        return f"Credentials({self.access_key})"


@cache
def msk_credentials(settings: MskSettings) -> "MskCredentials":
    """The one source of credentials of a process for these settings. Raises EnvironmentProblem without botocore."""
    if find_spec("botocore") is None:
        raise EnvironmentProblem(
            f"sasl.mechanism={MECHANISM} needs the Python package botocore, which is missing here.",
            "pip install 'sparkmirror[msk]'",
        )
    return MskCredentials(settings)


class MskCredentials:
    """Credentials that botocore found, renewed in time."""

    def __init__(self, settings: MskSettings) -> None:
        self._settings = settings
        self._lock = Lock()
        self._found: Any = None

    def current(self) -> Credentials:
        """Raises AuthenticationFailed where there are none; what botocore says of it may name files, never secrets."""
        errors = importlib.import_module("botocore.exceptions")
        with self._lock:
            try:
                self._found = self._found or self._find()
                frozen = self._found.get_frozen_credentials() if self._found else None
            except (errors.BotoCoreError, errors.ClientError) as problem:
                sentence = f"AWS credentials for {MECHANISM} cannot be had: {' '.join(str(problem).split())}"
                raise AuthenticationFailed(sentence, _HINT) from None
        if frozen is None or not frozen.access_key:
            raise AuthenticationFailed(f"There are no AWS credentials for {MECHANISM}.", _HINT)
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token)

    def region(self, host: str) -> str:
        """The region in the broker's name, else that of the environment or the profile. Raises AuthenticationFailed."""
        if named := _REGION_OF_HOST.search(host):
            return named[1]
        configured: str = self._session().get_config_variable("region") or ""
        if not configured:
            hint = "Set AWS_DEFAULT_REGION, or region in the profile."
            raise AuthenticationFailed(f"The AWS region of the broker {host} is not known.", hint)
        return configured

    def _session(self) -> Any:
        return importlib.import_module("botocore.session").Session(profile=self._settings.profile or None)

    def _find(self) -> Any:
        session = self._session()
        found = session.get_credentials()
        if not self._settings.role_arn or found is None:
            return found
        module = importlib.import_module("botocore.credentials")
        own = {
            "RoleSessionName": self._settings.role_session or "sparkmirror",
            "ExternalId": self._settings.external_id,
        }
        fetcher = module.AssumeRoleCredentialFetcher(
            self._make_client(session), found, self._settings.role_arn,
            extra_args={name: value for name, value in own.items() if value},
        )  # fmt: skip
        return module.DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")

    def _make_client(self, session: Any) -> Any:
        region = self._settings.sts_region or session.get_config_variable("region")

        def make(service: str, **arguments: Any) -> Any:
            return session.create_client(service, **({"region_name": region} | arguments))

        return make
