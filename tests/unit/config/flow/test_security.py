"""`config check` says what is wrong with TLS and log-ins, each with its line, without asking a cluster."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.flows import SMALLEST

from sparkmirror.config.flow.flows import load_config, parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.errors import ConfigError

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
def test_what_no_client_can_be_made_of_is_reported_with_its_line(lines: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(parse_properties((SMALLEST + lines).encode(), "mm2"))
    assert message in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_log_in_that_is_written_and_not_used_is_reported() -> None:
    config = parse_config(parse_properties(f"{SMALLEST}B.sasl.jaas.config = {PLAIN}\n".encode(), "mm2"))
    (warning,) = config.warnings
    assert (
        warning
        == "mm2:5: `B.sasl.jaas.config` has no effect, for `security.protocol` is PLAINTEXT: clients do not log in"
    )


SECURED = "A.sasl.mechanism = {}\nA.sasl.jaas.config = {}\n"
OAUTH = 'x.OAuthBearerLoginModule required clientId="u" clientSecret="hunter2";'
PROVIDER = (
    "config.providers = f\nconfig.providers.f.class = org.apache.kafka.common.config.provider.FileConfigProvider\n"
)
URL = "A.sasl.oauthbearer.token.endpoint.url = {}://idp.example/token\n"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            "A.security.protocol = SASL_PLAINTEXT\n" + SECURED.format("PLAIN", PLAIN),
            "mm2:5: `A.security.protocol`: PLAIN over SASL_PLAINTEXT sends the password in the clear",
        ),
        (
            "A.security.protocol = SASL_PLAINTEXT\n" + SECURED.format("OAUTHBEARER", OAUTH) + URL.format("https"),
            "mm2:5: `A.security.protocol`: OAUTHBEARER over SASL_PLAINTEXT sends the token in the clear",
        ),
        (
            "A.security.protocol = SASL_SSL\n" + SECURED.format("OAUTHBEARER", OAUTH) + URL.format("http"),
            "mm2:8: `A.sasl.oauthbearer.token.endpoint.url`: the token endpoint is asked in plain HTTP",
        ),
        (
            "A.security.protocol = SSL\nA.ssl.endpoint.identification.algorithm =\n",
            "mm2:6: `A.ssl.endpoint.identification.algorithm` is empty",
        ),
    ],
)
def test_what_works_and_lets_others_in_is_reported_with_its_line(lines: str, said: str) -> None:
    (warning,) = parse_config(parse_properties((SMALLEST + lines).encode(), "mm2")).warnings
    assert warning.startswith(said) and "hunter2" not in warning


@pytest.mark.parametrize(
    "lines",
    [
        "A.security.protocol = SASL_SSL\n" + SECURED.format("PLAIN", PLAIN),
        "A.security.protocol = SASL_PLAINTEXT\n" + SECURED.format("SCRAM-SHA-512", PLAIN.replace("Plain", "Scram")),
        "A.security.protocol = SASL_SSL\n" + SECURED.format("OAUTHBEARER", OAUTH) + URL.format("https"),
        "A.security.protocol = SSL\n",
    ],
)
def test_what_is_safe_gives_no_warning(lines: str) -> None:
    assert parse_config(parse_properties((SMALLEST + lines).encode(), "mm2")).warnings == ()


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """That others may enter, as /etc is; pytest's own are closed to them."""
    with TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize(("mode", "told"), [(0o644, 1), (0o640, 0), (0o600, 0)])
def test_a_file_with_secrets_that_everybody_may_read_is_reported(open_directory: Path, mode: int, told: int) -> None:
    secured = f"{SMALLEST}A.security.protocol = SASL_SSL\n{SECURED}"
    file, secrets = open_directory / "mm2.properties", open_directory / "secrets.properties"
    file.write_text(secured.format("PLAIN", PLAIN))
    file.chmod(mode)
    warnings = load_config(file).warnings
    assert len(warnings) == told and all(f"may read `{file}`" in one for one in warnings)

    secrets.write_text(f"jaas = {PLAIN}\n")
    secrets.chmod(mode)
    file.write_text(PROVIDER + secured.format("PLAIN", f"${{f:{secrets}:jaas}}"))
    file.chmod(0o644)
    warnings = load_config(file).warnings
    assert len(warnings) == told and all(f"may read `{secrets}`" in one for one in warnings)

    open_directory.chmod(0o700)
    assert load_config(file).warnings == (), "others cannot get there"
    open_directory.chmod(0o755)
    file.write_text(SMALLEST)
    assert load_config(file).warnings == (), "nothing in it is secret"
