"""What Kafka's shell scripts make of JMX_PORT and KAFKA_JMX_OPTS, and which of it leaves a port open to anybody."""

import pytest

from sparkmirror.operations.machine_checks import check_jmx
from sparkmirror.telemetry.jmx_port import find_open_port, is_wanted, jmx_options
from sparkmirror.views.findings import Level

REMOTE = "-Dcom.sun.management.jmxremote"
OWN = f"{REMOTE}=true {REMOTE}.authenticate=false {REMOTE}.ssl=false"
SAFE = f"{REMOTE}.authenticate=true {REMOTE}.password.file=/etc/jmx {REMOTE}.ssl=true"


def test_without_the_variables_nothing_is_asked_of_the_jvm() -> None:
    assert jmx_options({}) == ()
    assert not is_wanted({"JMX_PORT": " ", "KAFKA_OPTS": "-Xlog:gc"})


def test_a_port_alone_is_on_loopback_only() -> None:
    options = jmx_options({"JMX_PORT": "9999"})
    assert options == (
        f"{REMOTE}=true",
        f"{REMOTE}.authenticate=false",
        f"{REMOTE}.ssl=false",
        f"{REMOTE}.host=127.0.0.1",
        "-Djava.rmi.server.hostname=127.0.0.1",
        f"{REMOTE}.port=9999",
        f"{REMOTE}.rmi.port=9999",
    )


def test_options_of_ones_own_count_as_they_are() -> None:
    environ = {"JMX_PORT": "9999", "KAFKA_JMX_OPTS": f"{OWN}  {REMOTE}.rmi.port=9998"}
    assert jmx_options(environ) == (*OWN.split(), f"{REMOTE}.rmi.port=9998", f"{REMOTE}.port=9999")
    agent = "-javaagent:/opt/jolokia.jar=port=8778,host=localhost"
    assert jmx_options({"KAFKA_OPTS": f"-Dx=1 {agent}"}) == (agent,)
    assert is_wanted({"JAVA_TOOL_OPTIONS": agent})


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, ""),
        ({"JMX_PORT": "9999"}, "JMX listens on 127.0.0.1:9999 and asks nobody who he is: any process of this machine"),
        ({"JMX_PORT": "1", "KAFKA_JMX_OPTS": OWN}, "JMX listens on port 1 of every address and asks nobody who he is"),
        ({"KAFKA_JMX_OPTS": f"{OWN} {REMOTE}.port=7"}, "JMX listens on port 7 of every address"),
        ({"KAFKA_JMX_OPTS": OWN}, ""),
        ({"JMX_PORT": "9999", "KAFKA_JMX_OPTS": SAFE}, ""),
        ({"JMX_PORT": "1", "KAFKA_JMX_OPTS": f"{REMOTE}.authenticate=false {REMOTE}.ssl.need.client.auth=true"}, ""),
        (
            {"JMX_PORT": "1", "KAFKA_JMX_OPTS": f"{OWN} {REMOTE}.ssl.need.client.auth=true"},
            "JMX listens on port 1 of every address",
        ),
    ],
)
def test_a_port_that_asks_nobody_is_reported(environ: dict[str, str], said: str) -> None:
    port = find_open_port(jmx_options(environ))
    assert (port.sentence.startswith(said) if said else False) if port else said == ""
    findings = list(check_jmx(environ))
    assert [one.level for one in findings] == ([Level.WARN] if said else [])
