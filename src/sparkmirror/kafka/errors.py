"""The one place where the client's exceptions and Kafka's error codes become errors for people.

Called by everything in `sparkmirror.kafka`; nothing outside it ever sees a `kafka.errors` class.
"""

import inspect
import ssl
from collections.abc import Iterator

from kafka import errors as client_errors

from sparkmirror.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    ClusterError,
    ClusterUnreachable,
    FencedError,
    ProtocolError,
    SparkMirrorError,
    UnsupportedByBrokers,
)
from sparkmirror.kafka.answers import TopicExists
from sparkmirror.kafka.settings import ClientSettings

UNKNOWN_SERVER_ERROR = -1
"""kafka-python, and so `error_name`, calls it UNKNOWN."""
NO_ERROR = 0
UNKNOWN_TOPIC_OR_PARTITION = 3
COORDINATOR_LOAD_IN_PROGRESS = 14
COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
NOT_CONTROLLER = 41
CONCURRENT_TRANSACTIONS = 51
LEADER_MOVED = frozenset({3, 5, 6, 8, 9, 74, 75, 78, 80, 100, 103})
"""After these codes of Fetch and Produce the leader is looked up again: unknown topic or id, no leader, not the leader,
a replica that is away, a leader epoch that is fenced or unknown."""
SHORT_OF_REPLICAS = frozenset({7, 19, 20})
"""REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND: also of a leader that is cut off from the
others, of which one leads by now."""
COORDINATOR_MOVED = frozenset({COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR})
"""After these codes the coordinator of a group or a transactional id is looked up again."""
COORDINATOR_PASSING = COORDINATOR_MOVED | {COORDINATOR_LOAD_IN_PROGRESS}
"""After these codes the same question is asked again in a moment."""
TRANSACTION_PASSING = COORDINATOR_PASSING | {CONCURRENT_TRANSACTIONS}
"""So, also where the last transaction of an id has yet to end."""
TOPIC_ALREADY_EXISTS = 36
INVALID_REPLICATION_FACTOR = 38
INVALID_CONFIG = 40
_AUTHORIZATION = {29: "topic", 30: "group", 31: "cluster", 53: "transactional id", 65: "delegation token"}
_AUTHENTICATION = frozenset({33, 34, 58})
_FENCED = frozenset({47, 90})


class RequestRefused(ClusterError):
    """A broker answered with an error code of Kafka's protocol: `code`, `name`."""

    def __init__(self, message: str, hint: str, code: int) -> None:
        super().__init__(message, hint)
        self.code = code
        self.name = error_name(code)


def error_name(code: int) -> str:
    """Kafka's own name of an error code, such as `TOPIC_ALREADY_EXISTS`."""
    known = client_errors.kafka_errors.get(code)
    return known.message if known else f"ERROR_{code}"


def is_retriable(code: int) -> bool:
    """Whether Kafka's table calls the error code retriable."""
    known = client_errors.kafka_errors.get(code)
    return bool(known and known.retriable)


def refusal(code: int, alias: str, doing: str, detail: str | None = None) -> SparkMirrorError:
    """The error for `code`, which cluster `alias` answered while we were `doing` something ("creating topic x")."""
    why = f"{error_name(code)}: {detail.rstrip('.')}" if detail else error_name(code)
    message = f"Cluster {alias}: {doing} failed with {why}."
    if code in _AUTHORIZATION:
        kind = _AUTHORIZATION[code]
        hint = f"Grant the principal of {alias} access to this {kind}; `sparkmirror doctor` names what it lacks."
        return AuthorizationFailed(message, hint)
    if code in _AUTHENTICATION:
        return AuthenticationFailed(message, _SASL_HINT.format(alias=alias))
    if code in _FENCED:
        return FencedError(message, "Another instance of this flow has taken over.")
    if code == TOPIC_ALREADY_EXISTS:
        return TopicExists(message)
    return RequestRefused(message, _HINTS.get(code, ""), code)


def translate(error: BaseException, settings: ClientSettings, doing: str, address: str = "") -> SparkMirrorError:
    """The error for an exception of the client, raised while `doing` something on the cluster of `settings`.

    `address` is the broker that was asked, when it is known.
    """
    if own := next((cause for cause in _causes(error) if isinstance(cause, SparkMirrorError)), None):
        return own
    cluster = f"Cluster {settings.alias} ({address or ', '.join(settings.bootstrap_servers)})"
    if isinstance(error, client_errors.SaslAuthenticationFailedError):
        return AuthenticationFailed(
            f"{cluster} refused the credentials ({_mechanism(settings)}) while {doing}.",
            _SASL_HINT.format(alias=settings.alias),
        )
    if isinstance(error, (client_errors.UnsupportedSaslMechanismError, client_errors.IllegalSaslStateError)):
        return AuthenticationFailed(
            f"{cluster} does not offer {_mechanism(settings)} here, while {doing}.",
            f"Check {settings.alias}.sasl.mechanism and that the port belongs to a SASL listener.",
        )
    if tls := tls_failure(error):
        return _tls_error(tls, cluster, settings, doing)
    if isinstance(error, client_errors.IncompatibleBrokerVersion):
        return UnsupportedByBrokers(
            f"{cluster} is too old for {doing}: {_text(error)}.", "Brokers from Kafka 3.0 on are supported."
        )
    if isinstance(error, client_errors.BrokerResponseError) and not isinstance(error, _CONNECTION):
        return refusal(error.errno, settings.alias, doing)
    if isinstance(error, client_errors.KafkaProtocolError):
        return ProtocolError(f"{cluster} sent what we cannot read while {doing}: {_text(error)}.")
    return ClusterUnreachable(
        f"{cluster} did not answer while {doing}: {_text(error)}.",
        f"Check {settings.alias}.bootstrap.servers, security.protocol and the brokers' advertised.listeners.",
    )


def _mechanism(settings: ClientSettings) -> str:
    return settings.sasl.mechanism if settings.sasl else "SASL"


def is_refused_login(error: BaseException) -> bool:
    """Whether trying again with the same settings is pointless: TLS or SASL said no."""
    if any(isinstance(cause, (AuthenticationFailed, *_LOGIN)) for cause in _causes(error)):
        return True
    return tls_failure(error) is not None and not is_broken_handshake(error)


def is_absent(error: BaseException) -> bool:
    """Whether nothing listens there: the port refuses, or nobody knows the host. By kafka-python's own words."""
    return isinstance(error, client_errors.KafkaConnectionError) and any(mark in str(error) for mark in _ABSENT)


def tls_failure(error: BaseException) -> ssl.SSLError | None:
    """The TLS error behind `error`, unless an established connection merely broke."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLError) and (not isinstance(cause, _BROKEN) or is_broken_handshake(error)):
            return cause
    return None


def is_broken_handshake(error: BaseException) -> bool:
    """Whether the peer hung up during the TLS handshake: it speaks no TLS, or it is just going down."""
    during_handshake = "Handshake failed" in str(error)
    return during_handshake and any(isinstance(cause, _BROKEN) for cause in _causes(error))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and what it was raised from. kafka-python wraps by chaining, and sometimes by passing the first
    exception as an argument of the second."""
    while error is not None:
        yield error
        yield from (argument for argument in error.args if isinstance(argument, BaseException))
        error = error.__cause__ or _inner_context(error)


def _inner_context(error: BaseException) -> BaseException | None:
    """What was handled when the error was raised, within the call that failed. What the caller of that call handles has
    nothing to do with it: a function that is still running has caught that."""
    context = error.__context__
    if context is None or context.__traceback__ is None:
        return context
    caught_in, frame = context.__traceback__.tb_frame, inspect.currentframe()
    while frame is not None and frame is not caught_in:
        frame = frame.f_back
    return context if frame is None else None


def _tls_error(error: ssl.SSLError, cluster: str, settings: ClientSettings, doing: str) -> AuthenticationFailed:
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = f"Check {settings.alias}.ssl.truststore.* and that the certificate names the host in bootstrap.servers."
        return AuthenticationFailed(f"{cluster} showed a certificate we do not trust: {error.verify_message}.", hint)
    reason = (getattr(error, "reason", "") or str(error)).replace("_", " ").lower()
    if settings.tls and any(mark in reason for mark in _ABOUT_OUR_CERTIFICATE):
        hint = f"Check {settings.alias}.ssl.keystore.* and which authorities the brokers trust."
        if not settings.tls.key:
            return AuthenticationFailed(f"{cluster} asks for a client certificate, and none is configured.", hint)
        why = f", and {problem}" if (problem := settings.tls.key_problem()) else ""
        return AuthenticationFailed(f"{cluster} refused our certificate{why}: {reason}.", hint)
    hint = f"Check that the port is a TLS listener, and {settings.alias}.ssl.keystore.* if it asks for a certificate."
    return AuthenticationFailed(f"{cluster}: the TLS handshake failed while {doing}: {reason}.", hint)


def _text(error: BaseException) -> str:
    detail = "; ".join(str(argument) for argument in error.args if argument)
    if why := next((why for mark, why in _ABSENT.items() if mark in detail), ""):
        return why
    return detail.rstrip(".") or type(error).__name__


_CONNECTION = (
    client_errors.KafkaConnectionError,
    client_errors.KafkaTimeoutError,
    client_errors.RequestTimedOutError,
    client_errors.NodeNotReadyError,
)
# Alerts of the peer: RFC 8446 has one for no certificate, Java's brokers send "bad certificate" for all of them.
_ABOUT_OUR_CERTIFICATE = (
    "alert bad certificate",
    "alert certificate unknown",
    "alert certificate expired",
    "alert certificate required",
    "alert unsupported certificate",
    "alert unknown ca",
)
_UNKNOWN_HOST = "nobody knows the host"
_ABSENT = {
    "ECONNREFUSED": "the connection is refused, so nothing listens there",
    "DNS Resolution failure": _UNKNOWN_HOST,
    "DNS lookup failed": _UNKNOWN_HOST,
}
"""kafka-python's words for an address at which there is nothing, and ours."""
_BROKEN = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
_LOGIN = (
    client_errors.SaslAuthenticationFailedError,
    client_errors.UnsupportedSaslMechanismError,
    client_errors.IllegalSaslStateError,
)
_SASL_HINT = "Check {alias}.sasl.jaas.config and {alias}.sasl.mechanism."
_HINTS = {
    UNKNOWN_SERVER_ERROR: "The broker's own log says why. One of Kafka 3.0 to 3.2 that gives no producer ids may take "
    "a former controller for the present one (KAFKA-14167): start that broker again, or use newer ones.",
    INVALID_REPLICATION_FACTOR: "The cluster has fewer live brokers than the replication factor asks for.",
    44: "The cluster has a topic policy; see its create.topic.policy.class.name.",
    50: "Raise transaction.max.timeout.ms of the brokers or lower transaction.timeout.ms.",
    89: "The brokers limit how fast topics may be created; it is tried again in the next round.",
}
