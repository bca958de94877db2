"""JAAS lines as people write them into Java properties files."""

import pytest

from sparkmirror.kafka.security.jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="alice" password="secret";', {"username": "alice", "password": "secret"}),
        (f"{PLAIN} required username='alice' password='it is';", {"username": "alice", "password": "it is"}),
        (f"{PLAIN} required username=alice password=se-cret_1 ;", {"username": "alice", "password": "se-cret_1"}),
        (f'{PLAIN} REQUIRED password="a\\"b\\\\c\\t\\101;=";', {"password": 'a"b\\c\tA;='}),
        (f'{PLAIN}\n required // user\n username="a" /* x\n */ password="b";\n', {"username": "a", "password": "b"}),
        (f"{PLAIN} required;", {}),
        (f'{PLAIN} required password="";', {"password": ""}),
        (f'{PLAIN} required password="don\'t";', {"password": "don't"}),
    ],
)
def test_options_of_a_jaas_line_are_parsed(text: str, options: dict[str, str]) -> None:
    module = parse_jaas(text)
    assert (module.class_name, module.options) == (PLAIN, options)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "semicolon"),
        (f'{PLAIN} required password="hunter2"', "semicolon"),
        (f'{PLAIN} required password="hunter2;', "not closed"),
        (f'{PLAIN} password="hunter2";', "flag"),
        (f'{PLAIN} required "hunter2";', "option number 1"),
        (f'{PLAIN} required username="a" password=;', "option number 2"),
        (f'{PLAIN} required password="hunter2"; {PLAIN} required;', "exactly one"),
    ],
)
def test_a_mistake_is_named_without_showing_the_secret(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as caught:
        parse_jaas(text)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(parse_jaas(f'{PLAIN} required password="hunter2";'))
