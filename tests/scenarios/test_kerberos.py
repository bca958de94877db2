"""SASL/GSSAPI against MIT's own KDC, by both kinds of connections and by a whole mirror with a keytab.

Runs where the programs of a KDC (Debian's krb5-kdc, krb5-admin-server) and the Python package `gssapi` are.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.oracle import Client, assert_same, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import StartMirror, flow_file

from sparkmirror.errors import AuthenticationFailed
from sparkmirror.kafka.clients import open_admin
from sparkmirror.kafka.settings import client_settings
from sparkmirror.kafka.wire.link import dial
from sparkmirror.model import Cluster
from sparkmirror.testing.kafka import KafkaCluster
from sparkmirror.testing.ports import PortReservation

REALM = "SPARKMIRROR.TEST"
SERVICE = f"kafka/127.0.0.1@{REALM}"
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")
START_SECONDS_MAX = 60.0

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        find_spec("gssapi") is None or not all(map(shutil.which, PROGRAMS)),
        reason="needs the Python package gssapi and the programs of a KDC",
    ),
]


class Kdc:
    """A realm of its own on loopback: its files, and the environment of those that take part."""

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.log = directory / "kdc.log"
        kerberos, realm = directory / "krb5.conf", directory / "kdc.conf"
        off = (f"{name} = false" for name in ("dns_lookup_kdc", "dns_canonicalize_hostname", "rdns"))
        lines = (*off, "udp_preference_limit = 1")
        kerberos.write_text(
            "\n".join(["[libdefaults]", f"default_realm = {REALM}", *lines, "[realms]", f"{REALM} = {{"])
            + f"\n kdc = 127.0.0.1:{port}\n}}\n[logging]\nkdc = FILE:{self.log}\n"
        )
        realm.write_text(
            f'[realms]\n {REALM} = {{\n  kdc_listen = ""\n  kdc_tcp_listen = 127.0.0.1:{port}\n'
            f"  database_name = {directory}/principal\n  key_stash_file = {directory}/stash\n }}\n"
        )
        machine = os.environ.get("KRB5_CONFIG")
        self.environment = {
            "KRB5_CONFIG": f"{kerberos}:{machine}" if machine else str(kerberos),
            "KRB5_KDC_PROFILE": str(realm),
            "KRB5CCNAME": f"FILE:{directory}/tickets",
            "JDK_JAVA_OPTIONS": f"-Djava.security.krb5.conf={kerberos}",
        }

    def run(self, *command: str) -> None:
        subprocess.run(
            command, env=os.environ | self.environment, check=True, capture_output=True, timeout=60, cwd=self.directory
        )

    def keytab(self, principal: str) -> Path:
        """Makes the principal, and gives its keys."""
        file = self.directory / f"{principal.partition('/')[0]}.keytab"
        self.run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {principal}")
        self.run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {file} {principal}")
        return file


@contextmanager
def running(kdc: Kdc) -> Iterator[None]:
    kdc.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of-this-test-alone")
    with subprocess.Popen(["krb5kdc", "-n", "-r", REALM], env=os.environ | kdc.environment) as process:
        try:
            deadline = time.monotonic() + START_SECONDS_MAX
            while "commencing operation" not in (kdc.log.read_text() if kdc.log.exists() else ""):
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.05)
            yield
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with PortReservation(1) as reserved:
        made = Kdc(tmp_path_factory.mktemp("kdc"), reserved.ports[0])
        with running(made):
            yield made


@pytest.fixture(scope="module")
def kerberized(kdc: Kdc) -> Iterator[KafkaCluster]:
    prefix = "listener.name.sasl_plaintext"
    module = (
        'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true serviceName="kafka" '
        f'keyTab="{kdc.keytab(SERVICE)}" principal="{SERVICE}";'
    )
    config = {
        f"{prefix}.sasl.enabled.mechanisms": "GSSAPI",
        f"{prefix}.gssapi.sasl.jaas.config": module,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in kdc.environment.items():
            patch.setenv(name, value)
        with KafkaCluster(name="kerberized", sasl=("PLAIN", "nobody", "nothing"), config=config) as cluster:
            yield cluster


def by_ticket(cluster: KafkaCluster) -> Client:
    return {
        "bootstrap.servers": cluster.bootstrap_servers_sasl,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
    }


@pytest.fixture
def with_keytab(kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(kdc.keytab("mirror")))


@pytest.mark.usefixtures("with_keytab")
def test_a_keytab_opens_both_kinds_of_connections(kerberized: KafkaCluster) -> None:
    client = by_ticket(kerberized)
    with open_admin(Cluster("A", client), "test") as admin:
        assert admin.brokers()
    host, _, port = client["bootstrap.servers"].rpartition(":")
    dial(host, int(port), client_settings(Cluster("A", client), "test")).close()


@pytest.mark.usefixtures("with_keytab")
def test_a_mirror_writes_to_a_cluster_that_asks_for_tickets(
    source: Client, kerberized: KafkaCluster, unique: Callable[[str], str], start_mirror: StartMirror
) -> None:
    alias, topic = unique("kerberos"), unique("orders")
    make_topics(source, {topic: 2})
    write(source, topic, numbered(0, 1_000, partitions=2))
    ended = start_mirror(flow_file(source, by_ticket(kerberized), alias=alias, topics=topic), "--once").finish()
    assert ended.status == 0, ended.errors
    plain = {"bootstrap.servers": kerberized.bootstrap_servers}
    assert_same(read_topic(source, topic), read_topic(plain, f"{alias}.{topic}"), topic)


def test_without_a_ticket_it_says_so(kerberized: KafkaCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(tmp_path / "no.keytab"))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/no-tickets")
    with pytest.raises(AuthenticationFailed, match=r"[Kk]erberos|GSSAPI"):
        open_admin(Cluster("A", by_ticket(kerberized)), "test")
