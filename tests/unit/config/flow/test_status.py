"""`status.listen` and `status.token`: where the status page is, and for whom."""

from pathlib import Path
from secrets import token_hex

import pytest
from tests.flows import SMALLEST

from sparkmirror.config.flow.flows import parse_config
from sparkmirror.config.flow.settings import StatusSettings, is_loopback
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.config.types import NOWHERE, Address
from sparkmirror.config.types import TOKEN as TOKEN_TYPE
from sparkmirror.errors import ConfigError
from sparkmirror.kafka.security.tls import Store, TlsSettings

TOKEN = "k7mWq2ZxP9sTb4Vd"


def read(*lines: str) -> StatusSettings:
    config = parse_config(parse_properties((SMALLEST + "\n".join(lines) + "\n").encode(), "m.properties"))
    assert config.warnings == ()
    return config.status


def read_token(text: str) -> str:
    return TOKEN_TYPE.parse(text)


def test_nothing_listens_by_default() -> None:
    assert read() == StatusSettings(NOWHERE, "") and not read().listen
    assert not read("status.listen =").listen


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:8080", Address("localhost", 8080)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::1]:8080", Address("::1", 8080)),
    ],
)
def test_loopback_is_served_without_a_token(text: str, address: Address) -> None:
    settings = read(f"status.listen = {text}")
    assert settings.listen == address and settings.is_loopback and str(address) == text


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "10.0.0.7", "mirror.example"])
def test_other_machines_are_let_in_only_with_a_token(host: str) -> None:
    with pytest.raises(ConfigError, match="lets other machines in without a token") as problem:
        read(f"status.listen = {host}:8080")
    assert problem.value.line == 5
    assert read(f"status.listen = {host}:8080", f"status.token = {TOKEN}").token == TOKEN
    only_shown = read(f"status.listen = {host}:8080", f"status.read.only.token = {TOKEN}")
    assert (only_shown.token, only_shown.read_only_token) == ("", TOKEN)


@pytest.mark.parametrize("text", ["8080", "localhost", "localhost:", ":8080", "localhost:65536", "http://localhost:1"])
def test_what_is_no_address_is_reported(text: str) -> None:
    with pytest.raises(ConfigError, match="must be `host:port`"):
        read(f"status.listen = {text}")


@pytest.mark.parametrize("text", ["short", "fifteen-letters", "with blanks in it, and long", ""])
def test_a_token_that_could_be_guessed_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ConfigError, match="at least 16") as problem:
        read(f"status.token = {text}")
    assert not text or text not in str(problem.value)


def test_a_sign_of_comments_may_be_in_a_token() -> None:
    assert read("status.token = k7mWq2Zx#P9sTb4Vd").token == "k7mWq2Zx#P9sTb4Vd"


def test_settings_do_not_print_the_token() -> None:
    assert "k7mW" not in repr(read(f"status.token = {TOKEN}"))
    assert "k7mW" not in repr(read(f"status.read.only.token = {TOKEN}"))


@pytest.mark.parametrize("key", ["status.token", "status.read.only.token"])
@pytest.mark.parametrize(
    "text",
    [
        "change-me-to-sixteen-or-more",
        "ChangeMeToSixteenOrMore",
        "0123456789abcdef",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "deadbeefdeadbeefdeadbeef",
        "password-password-1",
        "1111222233334444",
    ],
)
def test_a_token_that_many_would_try_is_refused_and_not_shown(key: str, text: str) -> None:
    with pytest.raises(ConfigError, match="openssl rand -hex 24") as problem:
        read(f"{key} = {text}")
    assert text not in str(problem.value)


def test_a_random_token_is_taken() -> None:
    for _ in range(1000):
        token = token_hex(24)
        assert read_token(token) == token


def test_those_who_look_have_another_token_than_those_who_order() -> None:
    with pytest.raises(ConfigError, match=r"`status\.read\.only\.token` is `status\.token`"):
        read(f"status.token = {TOKEN}", f"status.read.only.token = {TOKEN}")


def test_probes_may_have_a_port_of_their_own_with_and_without_a_page() -> None:
    settings = read("status.probes.listen = 0.0.0.0:8081")
    assert settings.probes_listen == Address("0.0.0.0", 8081) and not settings.listen


def test_the_cap_of_an_address_leaves_room_for_a_person() -> None:
    assert read("status.max.connections.per.ip = 500").max_connections_per_ip == 500
    with pytest.raises(ConfigError, match="from 16 to 4096"):
        read("status.max.connections.per.ip = 1")


def test_tls_is_named_as_kafkas(tmp_path: Path) -> None:
    store = tmp_path / "page.pem"
    settings = read(
        "status.listen = localhost:8080", f"status.ssl.keystore.location = {store}", "status.ssl.keystore.type = PEM",
        "status.ssl.key.password = hush", "status.ssl.enabled.protocols = TLSv1.3",
    )  # fmt: skip
    assert settings.tls == TlsSettings(key=Store(str(store)), key_password="hush", versions=("TLSv1.3",))
    assert "hush" not in repr(settings)
    assert read("status.listen = localhost:8080").tls is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("status.ssl.key.password = x", "names no key and certificate"),
        ("status.ssl.keystore.key = x", r"status\.ssl\.keystore\.key and .* must be set together"),
        ("status.ssl.enabled.protocols = SSLv3", "status.ssl.enabled.protocols names neither"),
    ],
)
def test_tls_that_cannot_be_meant_is_refused_with_its_line(line: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as problem:
        read(line)
    assert problem.value.line == 5


def test_names_are_loopback_only_where_they_say_so() -> None:
    assert is_loopback("127.3.2.1") and is_loopback("Localhost") and not is_loopback("localhost.example")
