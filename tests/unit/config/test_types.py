"""Values as Java's `ConfigDef` parses them, and what a person is told of one that is wrong."""

from typing import Any

import pytest

from sparkmirror.config import types


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (types.LIST, "A, B", ("A", "B")),
        (types.LIST, " A ,B ", ("A", "B")),
        (types.LIST, "", ()),
        (types.LIST, "   ", ()),
        (types.LIST, "a b", ("a b",)),
        (types.LIST, "b, a,b", ("b", "a")),
        (types.PATTERNS, "a.*, b, a.*", ("a.*", "b")),
        (types.choices("legacy", "new"), "new, new", ("new",)),
        (types.PATTERNS, r"a.*, \d+", ("a.*", r"\d+")),
        (types.BOOLEAN, "true", True),
        (types.BOOLEAN, " FALSE ", False),
        (types.SWITCH, "true", True),
        (types.SWITCH, "TRUE", True),
        (types.SWITCH, "yes", False),
        (types.SWITCH, "1", False),
        (types.SWITCH, "", False),
        (types.SWITCH, " true\t", True),
        (types.whole(1), " 12 ", 12),
        (types.whole(1), "+5", 5),
        (types.whole(1, also=-1), "-1", -1),
        (types.choice("PLAINTEXT", "SSL"), "ssl", "SSL"),
        (types.choices("legacy", "new"), "new, legacy", ("new", "legacy")),
        (types.class_name({"a.B": "B"}), "a.B", "B"),
        (types.HOSTS, "a:1 , b.c:9092", "a:1,b.c:9092"),
        (types.HOSTS, "[::1]:9092", "[::1]:9092"),
        (types.HOSTS, "PLAINTEXT://a:1", "PLAINTEXT://a:1"),
        (types.HOSTS, "ssl://a:1,my-listener://[::1]:2", "ssl://a:1,my-listener://[::1]:2"),
        (types.SEPARATOR, "_", "_"),
    ],
)
def test_a_value_is_parsed_by_its_type(type_: types.Type[Any], text: str, value: object) -> None:
    assert type_.parse(text) == value


@pytest.mark.parametrize(
    ("type_", "text", "message"),
    [
        (types.LIST, "a,,b", "has an empty item"),
        (types.LIST, "a,", "has an empty item"),
        (types.STEPS, "a, b, a", "names `a` twice"),
        (types.choices("legacy", "new"), "new, old", "must be `legacy` or `new`, or several of them"),
        (types.choices("legacy", "new"), "", "must be `legacy` or `new`"),
        (types.PATTERNS, "a(", r"`a\(` is not a Java regular expression"),
        (types.BOOLEAN, "yes", "must be true or false"),
        (types.whole(1), "0", "from 1 to 2147483647"),
        (types.whole(1), "1_000", "must be a whole number"),
        (types.whole(1), "1.5", "must be a whole number"),
        (types.whole(1), "٣", "must be a whole number"),
        (types.whole(1), "", "must be a whole number"),
        (types.whole(1, unit="seconds"), "x", "a whole number of seconds"),
        (types.whole(1, also=-1), "-2", "or -1"),
        (types.choice("a", "b"), "c", "must be `a` or `b`"),
        (types.class_name({"a.B": "B"}), "B", r"known are a\.B"),
        (types.HOSTS, "", "must list `host:port`"),
        (types.HOSTS, "a", "not `a`"),
        (types.HOSTS, "a:1,b:99999", "not `b:99999`"),
        (types.HOSTS, "SSL://a", "not `SSL://a`"),
        (types.HOSTS, "a:1,::1:9092", r"without brackets: write `\[::1\]:9092`, not `::1:9092`"),
        (types.HOSTS, "ssl://2001:db8::7", r"write `\[2001:db8::7\]:9092`, not `ssl://2001:db8::7`"),
        (types.HOSTS, "fe80::1%eth0:9093", r"write `\[fe80::1%eth0\]:9093`"),
        (types.HOSTS, "::1", r"write `\[::1\]:9092`, not `::1`"),
        (types.HOSTS, "a:b:1", "must list `host:port`, not `a:b:1`"),
        (types.SEPARATOR, "||", "must be made of"),
    ],
)
def test_a_wrong_value_is_explained(type_: types.Type[Any], text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        type_.parse(text)
