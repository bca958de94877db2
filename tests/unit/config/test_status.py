"""`status.listen` and `status.token`: where the status page is, and for whom."""

import pytest

from sparkmirror.config.flows import parse_config
from sparkmirror.config.properties import parse_properties
from sparkmirror.config.status import StatusSettings, is_loopback
from sparkmirror.config.types import NOWHERE, Address
from sparkmirror.errors import ConfigError

FILE = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"


def read(*lines: str) -> StatusSettings:
    config = parse_config(parse_properties((FILE + "\n".join(lines) + "\n").encode(), "m.properties"))
    assert config.warnings == ()
    return config.status


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
def test_loopback_needs_no_token(text: str, address: Address) -> None:
    settings = read(f"status.listen = {text}")
    assert settings.listen == address and settings.is_loopback and str(address) == text


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "10.0.0.7", "mirror.example"])
def test_other_machines_are_let_in_only_with_a_token(host: str) -> None:
    with pytest.raises(ConfigError, match="lets other machines in without a token") as problem:
        read(f"status.listen = {host}:8080")
    assert problem.value.line == 5
    assert read(f"status.listen = {host}:8080", "status.token = 0123456789abcdef").token == "0123456789abcdef"


@pytest.mark.parametrize("text", ["8080", "localhost", "localhost:", ":8080", "localhost:65536", "http://localhost:1"])
def test_what_is_no_address_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match="must be `host:port`"):
        read(f"status.listen = {text}")


@pytest.mark.parametrize("text", ["short", "fifteen-letters", "with blanks in it, and long", ""])
def test_a_token_that_could_be_guessed_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ConfigError, match="at least 16") as problem:
        read(f"status.token = {text}")
    assert not text or text not in str(problem.value)


def test_a_sign_of_comments_may_be_in_a_token() -> None:
    assert read("status.token = 0123456789#abcdef").token == "0123456789#abcdef"


def test_settings_do_not_print_the_token() -> None:
    assert "0123" not in repr(read("status.token = 0123456789abcdef"))


def test_names_are_loopback_only_where_they_say_so() -> None:
    assert is_loopback("127.3.2.1") and is_loopback("Localhost") and not is_loopback("localhost.example")
