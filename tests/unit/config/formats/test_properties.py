"""Java's rules for properties files, with the line of every key."""

from pathlib import Path

import pytest

from sparkmirror.config.formats.properties import parse_properties, read_properties
from sparkmirror.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("a=1", "a", "1"),
        ("a = 1", "a", "1"),
        ("a:1", "a", "1"),
        ("a 1", "a", "1"),
        ("a", "a", ""),
        ("  a = 1  ", "a", "1  "),
        ("A->B.enabled = true", "A->B.enabled", "true"),
        ("A -> B.enabled = true", "A", "-> B.enabled = true"),
        (r"topics=foo\.bar", "topics", "foo.bar"),
        (r"topics=foo\\.bar", "topics", r"foo\.bar"),
        ("topics = a, \\\n    b", "topics", "a, b"),
        ("topics = a,\\\n# b", "topics", "a,# b"),
        ("topics = a\\\\\nb = 1", "topics", "a\\"),
        (r"k = \u00e9\t", "k", "é\t"),
        ("k = \xe9", "k", "é"),
        ("a\\ b = 1", "a b", "1"),
        ("a = 1 # no comment", "a", "1 # no comment"),
    ],
)
def test_reads_as_java_does(text: str, key: str, value: str) -> None:
    entry = parse_properties(text.encode("iso-8859-1")).get(key)
    assert entry is not None
    assert entry.value == value


@pytest.mark.parametrize("text", ["# a = 1", "! a = 1", "   # a = 1", "", "\n\n"])
def test_comments_and_blank_lines_hold_nothing(text: str) -> None:
    assert parse_properties(text.encode()).entries == {}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_key_knows_the_line_where_it_begins(end: str) -> None:
    text = end.join(("# comment", "", "a = 1, \\", "    2", "b = 3", "! x", "c = 4"))
    lines = {key: entry.line for key, entry in parse_properties(text.encode()).entries.items()}
    assert lines == {"a": 3, "b": 5, "c": 7}


def test_the_last_of_equal_keys_wins_and_the_others_are_remembered() -> None:
    properties = parse_properties(b"a = 1\nb = 2\na = 3\n")
    assert properties.entries["a"].value == "3"
    assert [(entry.key, entry.value, entry.line) for entry in properties.replaced] == [("a", "1", 1)]


def test_a_broken_escape_is_reported_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"mm2:2: a `\\u` without four hexadecimal digits"):
        parse_properties(b"a = 1\nb = C:\\users\n", "mm2")


def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.properties` cannot be read: No such file"):
        read_properties(tmp_path / "none.properties")


def test_keys_below_a_prefix_lose_it() -> None:
    below = parse_properties(b"A.x = 1\nA.y.z = 2\nAB.x = 3\nA. = 4\n").below("A.")
    assert {key: entry.value for key, entry in below.items()} == {"x": "1", "y.z": "2"}


def test_nothing_of_a_secret_is_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_properties("a = 1\nssl.key.password = aa\\us3cret\n", "file")
    assert "s3c" not in str(caught.value)
    properties = parse_properties("url = https://me:pä55@proxy/ü\n".encode(), "file")
    ((remark, _),) = properties.remarks
    assert "https://[hidden]@proxy/Ã¼" in remark
    assert "55" not in remark
