"""`config check` says what is wrong with TLS and log-ins, each with its line, without asking a cluster."""

import pytest

from sparkmirror.config.flows import parse_config
from sparkmirror.config.properties import parse_properties
from sparkmirror.errors import ConfigError

BASE = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
PLAIN = 'x.PlainLoginModule required username="u" password="hunter2";'


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "B.security.protocol = SASL_SSL\nB.sasl.mechanism = PLAIN\n",
            "mm2:5: cluster `B`: sasl.jaas.config is missing, and SASL needs it",
        ),
        (
            "B.security.protocol = SASL_SSL\nB.sasl.mechanism = PLAIN\nB.sasl.jaas.config = x required u=hunter2\n",
            "mm2:7: cluster `B`: sasl.jaas.config cannot be read: it must end with a semicolon",
        ),
        (
            "A.security.protocol = SASL_PLAINTEXT\n",
            "mm2:5: cluster `A`: sasl.kerberos.service.name is missing, and GSSAPI needs it",
        ),
        (
            f"A.security.protocol = SASL_SSL\nA.sasl.mechanism = NTLM\nA.sasl.jaas.config = {PLAIN}\n",
            "mm2:6: cluster `A`: sasl.mechanism=NTLM is not supported",
        ),
        (
            "A.security.protocol = SSL\nA.ssl.truststore.location = x\nA.ssl.truststore.type = BKS\n",
            "mm2:7: cluster `A`: ssl.truststore.type=BKS is not supported",
        ),
        (
            "A.security.protocol = SSL\nA.consumer.ssl.cipher.suites = TLS_NULL_WITH_NOTHING\n",
            "mm2:6: cluster `A`: ssl.cipher.suites=TLS_NULL_WITH_NOTHING is not known to OpenSSL",
        ),
    ],
)
def test_what_no_client_can_be_made_of_is_told_with_its_line(lines: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(parse_properties((BASE + lines).encode(), "mm2"))
    assert message in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_log_in_that_is_written_and_not_used_is_told() -> None:
    config = parse_config(parse_properties(f"{BASE}B.sasl.jaas.config = {PLAIN}\n".encode(), "mm2"))
    (warning,) = config.warnings
    assert warning == "mm2:5: `B.sasl.jaas.config` has no effect, for `security.protocol` is PLAINTEXT: nobody logs in"
