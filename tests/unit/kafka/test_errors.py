"""What people read when a client or a broker says no."""

import ssl

import pytest
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
from sparkmirror.kafka.errors import RequestRefused, error_name, is_refused_login, refusal, translate
from sparkmirror.kafka.security.sasl import SaslSettings
from sparkmirror.kafka.settings import ClientSettings

SETTINGS = ClientSettings(
    alias="A",
    bootstrap_servers=("one:9092", "two:9092"),
    client_id="test",
    security_protocol="SASL_SSL",
    sasl=SaslSettings("PLAIN", "alice", "hunter2"),
)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (29, AuthorizationFailed),
        (30, AuthorizationFailed),
        (31, AuthorizationFailed),
        (53, AuthorizationFailed),
        (58, AuthenticationFailed),
        (47, FencedError),
        (90, FencedError),
        (36, TopicExists),
        (38, RequestRefused),
        (9999, RequestRefused),
    ],
)
def test_error_codes_have_their_class(code: int, kind: type[Exception]) -> None:
    error = refusal(code, "A", "creating topic orders", "said the broker.")
    assert type(error) is kind
    assert "Cluster A: creating topic orders failed with" in str(error)
    assert "said the broker." in str(error)


def test_codes_have_kafkas_names_even_unknown_ones() -> None:
    assert error_name(36) == "TOPIC_ALREADY_EXISTS"
    assert error_name(9999) == "ERROR_9999"


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (
            client_errors.KafkaConnectionError("111 ECONNREFUSED"),
            ClusterUnreachable,
            "refused, so nothing listens",
        ),
        (client_errors.KafkaTimeoutError(), ClusterUnreachable, "KafkaTimeoutError"),
        (client_errors.RequestTimedOutError(), ClusterUnreachable, "RequestTimedOutError"),
        (client_errors.SaslAuthenticationFailedError("for alice"), AuthenticationFailed, r"credentials \(PLAIN\)"),
        (client_errors.UnsupportedSaslMechanismError(), AuthenticationFailed, "does not offer PLAIN"),
        (client_errors.TopicAuthorizationFailedError(), AuthorizationFailed, "TOPIC_AUTHORIZATION_FAILED"),
        (client_errors.KafkaProtocolError("frame"), ProtocolError, "cannot read"),
        (client_errors.IncompatibleBrokerVersion("old"), UnsupportedByBrokers, "too old"),
        (client_errors.KafkaConnectionError(ssl.SSLError(1, "tls alert")), AuthenticationFailed, "TLS handshake"),
        (client_errors.KafkaConnectionError(ssl.SSLEOFError(8, "eof")), ClusterUnreachable, "did not answer"),
    ],
)
def test_client_errors_name_the_cluster_and_what_was_done(error: Exception, kind: type[Exception], words: str) -> None:
    translated = translate(error, SETTINGS, "listing topics")
    assert type(translated) is kind
    with pytest.raises(kind, match=words):
        raise translated
    assert "A" in str(translated)
    assert "hunter2" not in str(translated)


def test_our_own_errors_pass_through_unchanged() -> None:
    error = ClusterError("as it is")
    assert translate(error, SETTINGS, "anything") is error


def test_only_refused_logins_are_not_worth_another_try() -> None:
    assert is_refused_login(client_errors.SaslAuthenticationFailedError())
    assert is_refused_login(client_errors.KafkaConnectionError(ssl.SSLCertVerificationError(1, "bad")))
    assert not is_refused_login(client_errors.KafkaConnectionError("reset"))
    assert not is_refused_login(client_errors.KafkaConnectionError(ssl.SSLEOFError(8, "eof")))


def test_an_error_is_not_taken_for_the_one_that_its_caller_handles() -> None:
    """A hole that another process had filled was FAILED where a broker refused the connection by which that was to be
    found out."""
    try:
        raise FencedError("handled by the caller")
    except FencedError:
        try:
            raise ConnectionRefusedError("the broker is down")
        except OSError as refused:
            found = _translated_within(refused)
    assert type(found) is ClusterUnreachable


def test_an_error_that_is_handled_within_the_call_that_failed_is_its_reason() -> None:
    try:
        _fail_in_a_provider()
    except OSError as problem:
        assert isinstance(_translated_within(problem), AuthenticationFailed)


def _translated_within(problem: BaseException) -> SparkMirrorError:
    return translate(problem, SETTINGS, "connecting")


def _fail_in_a_provider() -> None:
    try:
        raise AuthenticationFailed("the token provider gave none")
    except AuthenticationFailed:
        raise ConnectionError("closed")  # noqa: B904 - as the client does


def test_the_releases_that_are_supported_are_named_alike() -> None:
    """As by the data plane, `doctor` and the documentation."""
    error = translate(client_errors.IncompatibleBrokerVersion("old"), SETTINGS, "asking")
    assert "Kafka 3.0" in error.hint
