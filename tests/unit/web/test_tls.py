"""The page in TLS: with a certificate of `status.ssl.*`, which may be renewed while it runs."""

import http.client
import os
import shutil
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkmirror.config.flow.settings import StatusSettings
from sparkmirror.config.types import Address
from sparkmirror.errors import ConfigError
from sparkmirror.kafka.security.tls import Store, TlsSettings
from sparkmirror.testing.certificates import make_certificates
from sparkmirror.testing.layout import TlsFiles
from sparkmirror.web import server
from sparkmirror.web.health import Health
from sparkmirror.web.server import PageServer


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    return make_certificates(tmp_path / "tls")


@pytest.fixture
def page(files: TlsFiles) -> Iterator[PageServer]:
    tls = TlsSettings(key=Store(str(files.broker_file)))
    with PageServer(StatusSettings(Address("127.0.0.1", 0), tls=tls), Health()).start() as server:
        yield server


def ask(page: PageServer, authority: Path, path: str = "/healthz") -> tuple[int, str]:
    context = ssl.create_default_context(cafile=str(authority))
    connection = http.client.HTTPSConnection("localhost", page.address.port, timeout=60, context=context)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_the_page_speaks_tls_and_nothing_else_on_its_port(
    page: PageServer, files: TlsFiles, caplog: pytest.LogCaptureFixture
) -> None:
    assert ask(page, files.ca_file) == (200, "ok\n")
    assert "<title>SparkMirror</title>" in ask(page, files.ca_file, "/")[1]
    with pytest.raises(ssl.SSLCertVerificationError):
        ask(page, files.client_certificate_file)
    plain = http.client.HTTPConnection("127.0.0.1", page.address.port, timeout=60)
    plain.request("GET", "/healthz")
    with pytest.raises((http.client.HTTPException, OSError)):
        plain.getresponse()
    assert ask(page, files.ca_file) == (200, "ok\n")


def test_a_renewed_certificate_counts_without_a_restart_and_a_broken_one_does_not(
    page: PageServer, files: TlsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert ask(page, files.ca_file)[0] == 200
    monkeypatch.setattr(server, "_LOOK_SECONDS", 0.0)
    assert page._certificate is not None
    page._certificate._look_at = 0.0
    renewed = make_certificates(tmp_path / "renewed")
    shutil.copy(renewed.broker_file, files.broker_file)
    os.utime(files.broker_file, ns=(1, 1))
    assert ask(page, renewed.ca_file)[0] == 200
    files.broker_file.write_text("half of a certif")
    deadline = time.monotonic() + 60
    while "keeps its old certificate: status.ssl.keystore.location" not in caplog.text:
        assert time.monotonic() < deadline
        assert ask(page, renewed.ca_file)[0] == 200


def test_a_certificate_that_cannot_be_used_is_said_before_anything_listens(tmp_path: Path) -> None:
    (tmp_path / "page.pem").write_text("nothing")
    tls = TlsSettings(key=Store(str(tmp_path / "page.pem")))
    with pytest.raises(ConfigError, match=r"^status\.ssl\.keystore\.location .* cannot be used") as problem:
        PageServer(StatusSettings(Address("127.0.0.1", 0), tls=tls), Health())
    assert problem.value.key == "status.ssl.keystore.location"
