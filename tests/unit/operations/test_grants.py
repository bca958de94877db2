"""The table of permissions: by what a file asks for, as commands, and as the manual."""

from pathlib import Path

import pytest

from sparkmirror.cli.main import main
from sparkmirror.config.flow.flows import MirrorConfig, parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.kafka.answers import LITERAL, PREFIXED
from sparkmirror.operations.acl_commands import acl_commands, list_all, render_manual
from sparkmirror.operations.grants import KEEPING_OFFSETS, Grant, Kind, patterns_of

MANUAL = Path(__file__).parents[3] / "docs" / "permissions.md"
FILE = (
    "clusters = east, backup", "east.bootstrap.servers = e:1", "backup.bootstrap.servers = b:1",
    "east->backup.enabled = true", "topics = orders", "groups = billing",
)  # fmt: skip


def config(*lines: str) -> MirrorConfig:
    return parse_config(parse_properties("\n".join((*FILE, *lines)).encode(), "grants.properties"))


def granted(*lines: str) -> dict[tuple[str, str], Grant]:
    return {(one.alias, one.feature): one for one in list_all(config(*lines))}


@pytest.mark.parametrize(
    ("expression", "pattern"),
    [
        ("orders", (LITERAL, "orders")),
        (r"team\.orders", (LITERAL, "team.orders")),
        ("orders-.*", (PREFIXED, "orders-")),
        ("orders.+", (PREFIXED, "orders")),
        (".*", (LITERAL, "*")),
        ("orders|bills", (LITERAL, "*")),
        ("order[s]", (LITERAL, "*")),
    ],
)
def test_an_expression_is_a_name_a_prefix_or_everything(expression: str, pattern: tuple[str, str]) -> None:
    assert patterns_of([expression]) == [pattern]


def test_remote_topics_are_named_as_far_as_the_file_does() -> None:
    def remote(*lines: str) -> set[tuple[str, str]]:
        found = granted(*lines)["backup", "writing the remote topics"].resources
        assert {one.kind for one in found} == {Kind.TOPIC}
        return {(one.pattern, one.name) for one in found}

    assert remote("heartbeats.replication.enabled = false") == {(LITERAL, "east.orders")}
    assert remote("topics = .*") == {(PREFIXED, "east.")}
    assert remote("topics = orders-.*, orders-eu") == {(PREFIXED, "east.orders-"), (LITERAL, "east.heartbeats")}
    identity = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    assert remote(identity) == {(LITERAL, "orders"), (LITERAL, "east.heartbeats")}
    assert remote(identity, "topics = or.*") == {(LITERAL, "*")}


def test_what_is_switched_off_needs_nothing() -> None:
    off = ("sync.topic.acls", "sync.topic.configs", "emit.checkpoints", "emit.heartbeats", "emit.offset-syncs")
    features = {feature for _, feature in granted(*(f"{one}.enabled = false" for one in off))}
    assert features == {
        "reading the mirrored topics",
        "copying their settings",
        "writing the remote topics",
        "creating remote topics",
        "adding partitions to remote topics",
        "positions, status and orders",
        "fencing an older instance",
        "sharing flows between processes",
    }
    assert granted("backup.exactly.once.source.support = enabled")["backup", "fencing an older instance"].required
    syncs = granted("offset-syncs.topic.location = target")
    assert ("backup", "offset syncs (emit.offset-syncs.enabled)") in syncs


def test_commands_are_for_a_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = acl_commands(config("topics = orders-.*", "heartbeats.replication.enabled = false"), "User:CN=mirror, O=x")
    common = "--command-config admin.properties --add --allow-principal 'User:CN=mirror, O=x'"
    fetch_state = f"kafka-acls --bootstrap-server e:1 {common} --operation Read --topic orders-"
    assert f"{fetch_state} --resource-pattern-type prefixed" in lines
    assert f"kafka-acls --bootstrap-server b:1 {common} --operation Describe --operation Alter --cluster" in lines
    assert (
        f"kafka-acls --bootstrap-server b:1 {common} --operation Create --operation Write --topic heartbeats" in lines
    )
    assert any("--transactional-id east-mm2-MirrorSourceConnector- " in line for line in lines)
    file = tmp_path / "grants.properties"
    file.write_text("\n".join(FILE))
    assert main(["doctor", str(file), "--acls", "User:mirror"]) == 0
    assert capsys.readouterr().out.splitlines() == acl_commands(config(), "User:mirror")


def test_the_manual_is_what_the_table_says() -> None:
    hint = "write it again: python -m sparkmirror.operations.acl_commands > docs/permissions.md"
    assert MANUAL.read_text() == render_manual(), hint


def test_keeping_offsets_needs_more_on_the_topics_whose_offsets_are_kept() -> None:
    def kept(*lines: str) -> list[tuple[Kind, str, str, tuple[str, ...]]]:
        rows = [
            one for one in list_all(config("preserve.offsets.enabled = true", *lines)) if one.feature == KEEPING_OFFSETS
        ]
        assert all(one.alias == "backup" and one.required for one in rows)
        return [(one.kind, one.pattern, one.name, row.operations) for row in rows for one in row.resources]

    fillers = (Kind.TRANSACTIONAL_ID, PREFIXED, "east-mm2-sparkmirror-offsets-", ("WRITE",))
    rights = ("READ", "DELETE")
    heartbeats = (Kind.TOPIC, LITERAL, "east.heartbeats", rights)
    assert kept() == [heartbeats, (Kind.TOPIC, LITERAL, "east.orders", rights), fillers]
    some = kept("topics = .*", "preserve.offsets.topics = ledger-.*")
    assert some == [(Kind.TOPIC, PREFIXED, "east.ledger-", rights), fillers]
    assert not [one for one in granted() if "keeping o" in one[1]]
