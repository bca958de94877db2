"""AWS_MSK_IAM: what is signed, with whose credentials, for which region; by both kinds of connections."""

import hashlib
import hmac
import json
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from tests.unit.kafka.login_server import login_server

from sparkmirror.errors import AuthenticationFailed, ConfigError, EnvironmentProblem
from sparkmirror.kafka.connection import ClusterConnection
from sparkmirror.kafka.security import msk
from sparkmirror.kafka.security.msk import MskCredentials, MskSettings, msk_credentials
from sparkmirror.kafka.settings import ClientSettings, client_settings
from sparkmirror.kafka.wire.link import dial
from sparkmirror.model import Cluster

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
ROLE = "arn:aws:iam::123456789012:role/mirror"
MODULE = "software.amazon.msk.auth.iam.IAMLoginModule"
HANDLER = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
WELCOME = b'{"version":"2020_10_22","request-id":"1"}'


@pytest.fixture(autouse=True)
def _aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Credentials of the environment, and nothing of this machine."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "no_proxy": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    msk_credentials.cache_clear()
    yield
    msk_credentials.cache_clear()


def properties(port: int = 9098, **options: str) -> dict[str, str]:
    named = "".join(f' {name}="{value}"' for name, value in options.items())
    return {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": f"{MODULE} required{named};",
        "sasl.client.callback.handler.class": HANDLER,
    }


def settings(port: int, **options: str) -> ClientSettings:
    """As a file says; without TLS, which the port does not speak."""
    made = client_settings(Cluster("A", properties(port, **options)), "test")
    return replace(made, security_protocol="SASL_PLAINTEXT", tls=None)


def for_control(made: ClientSettings, port: int) -> None:
    ClusterConnection(made, 60.0).close()


def for_data(made: ClientSettings, port: int) -> None:
    dial("127.0.0.1", port, made).close()


Way = Callable[[ClientSettings, int], None]


def said_at_log_in(way: Way, **options: str) -> dict[str, str]:
    """What a broker is told; it refuses whatever that is."""
    said: list[bytes] = []

    def answer(_: int, message: bytes) -> bytes:
        said.append(message)
        return b""

    with login_server(answer) as port, pytest.raises(AuthenticationFailed):
        way(settings(port, **options), port)
    found: dict[str, str] = json.loads(said[0])
    return found


def signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    """Signature Version 4 as AWS documents it."""
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def signature_of(said: dict[str, str], secret: str, host: str, region: str) -> str:
    day = said["x-amz-date"][:8]
    names = ("action", *sorted(name for name in said if name.startswith("x-amz-") and name != "x-amz-signature"))
    query = "&".join(f"{_titled(name)}={urllib.parse.quote(said[name], safe='-._~')}" for name in names)
    empty = hashlib.sha256(b"").hexdigest()
    digest = hashlib.sha256(f"GET\n/\n{query}\nhost:{host}\n\nhost\n{empty}".encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{said['x-amz-date']}\n{day}/{region}/kafka-cluster/aws4_request\n{digest}"
    return hmac.new(signing_key(secret, day, region, "kafka-cluster"), text.encode(), hashlib.sha256).hexdigest()


def _titled(name: str) -> str:
    return "X-Amz-SignedHeaders" if name == "x-amz-signedheaders" else name.title()


def test_the_witness_derives_keys_as_the_example_of_aws_documentation() -> None:
    derived = signing_key(SECRET, "20120215", "us-east-1", "iam")
    assert derived.hex() == "f4780e2d9f65fa895f9c67b32ce1baf0b0d8a43505a000a1a9e090d414db404d"


@pytest.mark.parametrize("way", [for_control, for_data])
def test_the_signature_is_what_aws_documents_and_what_its_own_library_makes(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = said_at_log_in(way)
    assert (said["host"], said["action"], said["version"]) == ("127.0.0.1", "kafka-cluster:Connect", "2020_10_22")
    assert said["x-amz-credential"].startswith(f"{KEY}/") and "/eu-west-1/kafka-cluster/" in said["x-amz-credential"]
    assert said["x-amz-signature"] == signature_of(said, SECRET, "127.0.0.1", "eu-west-1")

    at = datetime.strptime(said["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda *_, **__: at.replace(tzinfo=None))
    request = AWSRequest("GET", "https://127.0.0.1/?Action=kafka-cluster%3AConnect")
    SigV4QueryAuth(Credentials(KEY, SECRET), "kafka-cluster", "eu-west-1", expires=900).add_auth(request)
    theirs = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(request.url).query))
    assert theirs["X-Amz-Date"] == said["x-amz-date"]
    assert theirs["X-Amz-Signature"] == said["x-amz-signature"]


def test_a_broker_that_takes_it_lets_the_data_through() -> None:
    with login_server(lambda *_: WELCOME) as port:
        for_data(settings(port), port)


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("b-1.orders.abc123.c2.kafka.us-east-1.amazonaws.com", "us-east-1"),
        ("boot-x.c1.kafka-serverless.ap-southeast-2.amazonaws.com", "ap-southeast-2"),
        ("b-2.orders.x.c2.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("b-2.orders.x.c2.kafka.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("broker.example.com", "eu-west-1"),
    ],
)
def test_the_region_is_that_of_the_broker_s_name_or_of_the_environment(host: str, region: str) -> None:
    assert MskCredentials(MskSettings()).region(host) == region


def test_a_region_that_nobody_says_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(AuthenticationFailed, match=r"region of the broker broker\.example\.com is not known"):
        MskCredentials(MskSettings()).region("broker.example.com")


def test_a_profile_has_its_own_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    (tmp_path / "credentials").write_text("[east]\naws_access_key_id = EAST\naws_secret_access_key = s\n")
    said = said_at_log_in(for_data, awsProfileName="east")
    assert said["x-amz-credential"].startswith("EAST/")
    with pytest.raises(AuthenticationFailed, match=r"The config profile \(west\) could not be found"):
        MskCredentials(MskSettings("west")).current()


def test_without_credentials_one_sentence_says_what_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(AuthenticationFailed, match="There are no AWS credentials for AWS_MSK_IAM") as caught:
        MskCredentials(MskSettings()).current()
    assert "AWS_ACCESS_KEY_ID" in caught.value.hint


class TokenService(ThreadingHTTPServer):
    """As much of AWS's STS as gives credentials of a role; `asked` are the forms, credentials live `life_seconds`."""

    daemon_threads = True
    life_seconds = 3600

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        super().__init__(("127.0.0.1", 0), _TokenService)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


class _TokenService(BaseHTTPRequestHandler):
    server: TokenService

    def do_POST(self) -> None:
        form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        self.server.asked.append({**form, "by": self.headers["Authorization"]})
        ends = (datetime.now(UTC) + timedelta(seconds=self.server.life_seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        number = len(self.server.asked)
        body = (
            '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>'
            f"<AccessKeyId>ROLE{number}</AccessKeyId><SecretAccessKey>role-secret</SecretAccessKey>"
            f"<SessionToken>session-{number}</SessionToken><Expiration>{ends}</Expiration>"
            "</Credentials></AssumeRoleResult></AssumeRoleResponse>"
        ).encode()
        refused = form.get("RoleArn") != ROLE
        denied = b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>"
        self.send_response(403 if refused else 200)
        self.send_header("Content-Type", "text/xml")
        self.end_headers()
        self.wfile.write(denied if refused else body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Silence."""


@pytest.fixture
def sts(monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenService]:
    with TokenService() as service:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{service.server_address[1]}")
        yield service
        service.shutdown()


def test_a_role_is_assumed_and_its_session_goes_along(sts: TokenService) -> None:
    options = {"awsRoleArn": ROLE, "awsRoleSessionName": "eu", "awsRoleExternalId": "x1", "awsStsRegion": "eu-north-1"}
    said = said_at_log_in(for_data, **options)
    (asked,) = sts.asked
    assert (asked["RoleArn"], asked["RoleSessionName"], asked["ExternalId"]) == (ROLE, "eu", "x1")
    assert f"Credential={KEY}/" in asked["by"] and "/eu-north-1/sts/" in asked["by"]
    assert said["x-amz-credential"].startswith("ROLE1/")
    assert said["x-amz-security-token"] == "session-1"
    assert said["x-amz-signature"] == signature_of(said, "role-secret", "127.0.0.1", "eu-west-1")


def test_a_role_s_credentials_are_kept_and_renewed_before_they_end(sts: TokenService) -> None:
    lasting = MskCredentials(MskSettings(role_arn=ROLE))
    assert [lasting.current().access_key, lasting.current().access_key] == ["ROLE1", "ROLE1"]
    sts.life_seconds = 60
    brief = MskCredentials(MskSettings(role_arn=ROLE))
    assert [brief.current().access_key, brief.current().access_key] == ["ROLE2", "ROLE3"]


def test_a_role_that_may_not_be_assumed_is_reported_without_secrets(sts: TokenService) -> None:
    with pytest.raises(AuthenticationFailed, match="AccessDenied") as caught:
        MskCredentials(MskSettings(role_arn=f"{ROLE}-of-others")).current()
    assert SECRET not in str(caught.value)
    assert sts.asked


def test_secrets_are_in_no_repr() -> None:
    credentials = MskCredentials(MskSettings())
    assert SECRET not in repr(credentials.current())
    assert SECRET not in repr(credentials)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"security.protocol": "SASL_PLAINTEXT"}, "AWS_MSK_IAM takes security.protocol=SASL_SSL"),
        ({"sasl.client.callback.handler.class": "com.example.Mine"}, "com.example.Mine is a Java class"),
        ({"sasl.jaas.config": "x"}, "sasl.jaas.config cannot be read"),
    ],
)
def test_what_cannot_log_in_is_reported_before_the_start(changed: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        client_settings(Cluster("A", properties() | changed), "test")


def test_the_login_module_may_be_left_out() -> None:
    client = {key: value for key, value in properties().items() if not key.startswith("sasl.jaas")}
    made = client_settings(Cluster("A", client), "test")
    assert made.sasl is not None and made.sasl.msk == MskSettings()


def test_without_botocore_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(msk, "find_spec", lambda _: None)
    with pytest.raises(EnvironmentProblem, match="needs the Python package botocore"):
        msk_credentials(MskSettings("another"))
