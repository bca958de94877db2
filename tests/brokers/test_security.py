"""Every way to log in, on real brokers: the control plane's client and the bulk connections alike."""

import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.brokers.grants import grant
from tests.scenarios.mirror import flow_file
from tests.stores import by_certificate, trust_store
from tests.token_endpoint import SECRET, TokenEndpoint

from sparkmirror.config.flow.flows import parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.errors import AuthenticationFailed, AuthorizationFailed, ConfigError
from sparkmirror.kafka.answers import LITERAL, AclBinding, NewTopic
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.publish import publish
from sparkmirror.kafka.settings import client_settings
from sparkmirror.kafka.wire.link import dial
from sparkmirror.ledger.mirror_records import Checkpoint
from sparkmirror.ledger.setup import ensure_compacted_topic
from sparkmirror.model import Cluster, TopicPartition
from sparkmirror.sync.offset_state import OffsetState
from sparkmirror.testing.certificates import make_certificates
from sparkmirror.testing.kafka import KafkaCluster

USER, PASSWORD, STORE_PASSWORD = "mirror", "correct-horse-battery", "store-staple"
SECRETS = (PASSWORD, STORE_PASSWORD, SECRET, "wrong-password")
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SESSION_SECONDS = 1.5
Client = dict[str, str]


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    """TLS that asks for a client certificate, SCRAM, and an authorizer; who comes in plain is an administrator."""
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.sasl_ssl.connections.max.reauth.ms": str(int(SESSION_SECONDS * 1000)),
    }
    with KafkaCluster(name="guarded", tls=True, sasl=("SCRAM-SHA-512", USER, PASSWORD), config=config) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def by_token() -> Iterator[KafkaCluster]:
    """OAUTHBEARER; the broker takes unsecured tokens."""
    with KafkaCluster(name="by-token", sasl=("OAUTHBEARER", "", "")) as cluster:
        yield cluster


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenEndpoint]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with TokenEndpoint() as server:
        yield server


def by_password(cluster: KafkaCluster, directory: Path, password: str = PASSWORD) -> Client:
    """SCRAM over TLS with a PKCS12 trust store."""
    return {
        "bootstrap.servers": cluster.bootstrap_servers_sasl_tls,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{SCRAM} required username="{USER}" password="{password}";',
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(trust_store(cluster.ca_file, directory / "trust.p12", STORE_PASSWORD, "PKCS12")),
        "ssl.truststore.password": STORE_PASSWORD,
    }


def by_oauth(cluster: KafkaCluster, endpoint: TokenEndpoint, secret: str = SECRET) -> Client:
    """Client credentials."""
    return {
        "bootstrap.servers": cluster.bootstrap_servers_sasl,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
        ),
        "sasl.oauthbearer.token.endpoint.url": endpoint.url,
        "sasl.jaas.config": f'{OAUTH} required clientId="mirror" clientSecret="{secret}" scope="kafka";',
    }


def log_in(client: Mapping[str, str]) -> None:
    """By both kinds of connections."""
    cluster = Cluster("A", client)
    with open_admin(cluster, "test") as admin:
        assert admin.brokers()
    host, _, port = client["bootstrap.servers"].rpartition(":")
    dial(host, int(port), client_settings(cluster, "test")).close()


def refusals(client: Mapping[str, str]) -> list[str]:
    """What both kinds of connections say when they are refused."""
    cluster = Cluster("A", client)
    host, _, port = client["bootstrap.servers"].rpartition(":")
    said = []
    with pytest.raises((AuthenticationFailed, ConfigError)) as caught:
        open_admin(cluster, "test")
    said.append(str(caught.value))
    with pytest.raises((AuthenticationFailed, ConfigError)) as caught:
        dial(host, int(port), client_settings(cluster, "test"))
    said.append(str(caught.value))
    assert not any(secret in sentence for secret in SECRETS for sentence in said)
    return said


def test_certificates_and_passwords_open_both_kinds_of_connections(guarded: KafkaCluster, tmp_path: Path) -> None:
    log_in(by_certificate(guarded, tmp_path, STORE_PASSWORD))
    log_in(by_password(guarded, tmp_path))


def test_refused_certificates_are_reported(guarded: KafkaCluster, tmp_path: Path) -> None:
    good = by_certificate(guarded, tmp_path, STORE_PASSWORD)
    without = {key: value for key, value in good.items() if "keystore" not in key}
    expired = without | {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(guarded.tls.expired_client_file)}
    elsewhere = make_certificates(tmp_path / "elsewhere")
    foreign_file = tmp_path / "foreign.pem"
    foreign_file.write_text(elsewhere.client_key_file.read_text() + elsewhere.client_certificate_file.read_text())
    foreign = expired | {"ssl.keystore.location": str(foreign_file)}
    untrusting = good | {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(elsewhere.ca_file)}
    for client, words in (
        (without, "asks for a client certificate, and none is configured"),
        (expired, "refused our certificate, and it expired on"),
        (foreign, "refused our certificate: "),
        (untrusting, "showed a certificate we do not trust"),
        (good | {"ssl.keystore.password": "wrong-password"}, "ssl.keystore.location"),
    ):
        for sentence in refusals(client):
            assert words in sentence


def test_a_broker_under_a_name_that_its_certificate_does_not_have_is_reported(
    guarded: KafkaCluster, tmp_path: Path
) -> None:
    good = by_certificate(guarded, tmp_path, STORE_PASSWORD)
    elsewhere = good | {"bootstrap.servers": good["bootstrap.servers"].replace("127.0.0.1", "127.1")}
    for sentence in refusals(elsewhere):
        assert "showed a certificate we do not trust" in sentence and "'127.1'" in sentence
    log_in(elsewhere | {"ssl.endpoint.identification.algorithm": ""})


def test_only_the_cipher_suites_that_are_listed_are_offered(guarded: KafkaCluster, tmp_path: Path) -> None:
    listed = {"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}
    client = by_certificate(guarded, tmp_path, STORE_PASSWORD) | listed
    log_in(client)
    host, _, port = client["bootstrap.servers"].rpartition(":")
    link = dial(host, int(port), client_settings(Cluster("A", client), "test"))
    assert isinstance(link.socket, ssl.SSLSocket)
    name, version, _ = link.socket.cipher() or ("", "", 0)
    link.close()
    assert (version, name.endswith("AES256-GCM-SHA384")) == ("TLSv1.2", True)


def test_a_wrong_password_is_reported(guarded: KafkaCluster, tmp_path: Path) -> None:
    for sentence in refusals(by_password(guarded, tmp_path, "wrong-password")):
        assert "refused the credentials (SCRAM-SHA-512)" in sentence


def test_a_missing_acl_is_reported_and_a_grant_helps(guarded: KafkaCluster, tmp_path: Path) -> None:
    mirror = Cluster("A", by_password(guarded, tmp_path))
    topic = "for-alice"
    with open_admin(mirror, "test") as admin, open_admin(_plain(guarded), "test") as root:
        (refused,) = admin.create_topics([NewTopic(topic, 1, 1)]).values()
        assert isinstance(refused, AuthorizationFailed)
        assert f"Cluster A: creating topic {topic} failed with TOPIC_AUTHORIZATION_FAILED" in str(refused)
        assert "Grant the principal of A" in refused.hint
        assert root.create_topics([NewTopic(topic, 1, 1)]) == {topic: None}
        with pytest.raises(AuthorizationFailed, match=f"writing to topic {topic}"):
            publish(mirror, topic, [(b"k", b"v")])
        grant(root, AclBinding(topic, LITERAL, f"User:{USER}", "*", "WRITE", "ALLOW"))
        publish(mirror, topic, [(b"k", b"v")], 60.0)


def test_existing_internal_topics_are_used_without_the_right_to_create(guarded: KafkaCluster, tmp_path: Path) -> None:
    with (
        open_admin(Cluster("A", by_password(guarded, tmp_path)), "test") as admin,
        open_admin(_plain(guarded), "test") as root,
    ):
        there, missing = "made-before", "made-by-nobody"
        assert ensure_compacted_topic(root, there, 1)
        grant(root, *(AclBinding(topic, LITERAL, f"User:{USER}", "*", "WRITE", "ALLOW") for topic in (there, missing)))
        assert not ensure_compacted_topic(admin, there, 1)
        with pytest.raises(AuthorizationFailed, match=f"creating topic {missing}"):
            ensure_compacted_topic(admin, missing, 1)


def test_checkpoints_that_may_not_be_read_are_not_taken_for_none(guarded: KafkaCluster, tmp_path: Path) -> None:
    """MirrorMaker goes on without them, and may then send a group back."""
    text = flow_file(
        {"bootstrap.servers": guarded.bootstrap_servers}, by_password(guarded, tmp_path), alias="east", topics="o"
    )
    (flow,) = parse_config(parse_properties(text.encode(), "mm2.properties")).flows
    topic = "east.checkpoints.internal"
    checkpoint = Checkpoint("billing", TopicPartition("east.o", 0), 150, 149)
    with open_admin(flow.target, "test") as admin, open_admin(_plain(guarded), "test") as root:
        assert ensure_compacted_topic(root, topic, 1)
        publish(_plain(guarded), topic, [(checkpoint.key(), checkpoint.value())], 60.0)
        grant(root, AclBinding(topic, LITERAL, f"User:{USER}", "*", "WRITE", "ALLOW"))
        with pytest.raises(AuthorizationFailed, match=topic):
            OffsetState(flow, root, admin)
        grant(root, AclBinding(topic, LITERAL, f"User:{USER}", "*", "READ", "ALLOW"))
        with OffsetState(flow, root, admin) as state:
            assert list(state.checkpoints.values()) == [checkpoint]


def test_a_session_outlives_its_log_in(guarded: KafkaCluster, tmp_path: Path) -> None:
    """KIP-368: brokers cut connections that do not log in again in time."""
    client = by_password(guarded, tmp_path)
    with open_admin(Cluster("A", client), "test") as admin:
        host, _, port = client["bootstrap.servers"].rpartition(":")
        before = time.monotonic()
        link = dial(host, int(port), client_settings(Cluster("A", client), "test"))
        after = time.monotonic()
        link.close()
        assert before + 0.5 * SESSION_SECONDS < link.reauthenticate_at < after + SESSION_SECONDS
        ends_at = time.monotonic() + 2 * SESSION_SECONDS
        while time.monotonic() < ends_at:
            assert admin.brokers()
            threading.Event().wait(0.1)


def test_tokens_open_both_kinds_of_connections(by_token: KafkaCluster, endpoint: TokenEndpoint) -> None:
    log_in(by_oauth(by_token, endpoint))
    assert endpoint.asked == ["grant_type=client_credentials&scope=kafka"], "one token serves all connections"
    jaas = f'{OAUTH} required unsecuredLoginStringClaim_sub="mirror";'
    log_in(
        {
            "bootstrap.servers": by_token.bootstrap_servers_sasl,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": jaas,
        }
    )


def test_a_refusing_endpoint_and_a_refused_token_are_reported(by_token: KafkaCluster, endpoint: TokenEndpoint) -> None:
    for sentence in refusals(by_oauth(by_token, endpoint, secret="wrong-password")):
        assert f"The OAuth token endpoint {endpoint.url} answered 401 (invalid_client)" in sentence
    endpoint.life_seconds = -3600
    for sentence in refusals(by_oauth(by_token, endpoint)):
        assert "refused the credentials (OAUTHBEARER)" in sentence


@pytest.mark.parametrize("grant", ["ClientCredentials", "JwtBearer"])
def test_signed_assertions_open_both_kinds_of_connections(
    by_token: KafkaCluster, endpoint: TokenEndpoint, tmp_path: Path, grant: str
) -> None:
    key = rsa.generate_private_key(65537, 2048)
    endpoint.public_key = key.public_key()
    (tmp_path / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    log_in(
        by_oauth(by_token, endpoint)
        | {
            "sasl.jaas.config": f'{OAUTH} required scope="{grant}";',
            "sasl.oauthbearer.jwt.retriever.class": f"{OAUTH.rpartition('.')[0]}.{grant}JwtRetriever",
            "sasl.oauthbearer.assertion.private.key.file": str(tmp_path / "key.pem"),
            "sasl.oauthbearer.assertion.claim.iss": "mirror",
        }
    )
    assert [claims["iss"] for claims in endpoint.asserted] == ["mirror"], "one token serves all connections"
    assert endpoint.logins == [""], "no secret goes along"


def _plain(cluster: KafkaCluster) -> Cluster:
    return Cluster("root", {"bootstrap.servers": cluster.bootstrap_servers})
