"""Who may write to topics whose offsets are kept, by the ACLs of a cluster."""

import pytest

from sparkmirror.kafka.answers import AclBinding
from sparkmirror.operations.writer_checks import find_writers, judge_writers
from sparkmirror.views.findings import Level

TOPICS = ["A.orders", "A.bills"]


def acl(
    principal: str,
    topic: str = "A.",
    *,
    pattern: str = "PREFIXED",
    operation: str = "WRITE",
    permission: str = "ALLOW",
    host: str = "*",
) -> AclBinding:
    return AclBinding(topic, pattern, f"User:{principal}", host, operation, permission)


@pytest.mark.parametrize(
    ("bindings", "found"),
    [
        ([acl("mirror"), acl("app", operation="READ")], {"User:mirror": ["A.bills", "A.orders"]}),
        ([acl("app", "A.orders", pattern="LITERAL", operation="ALL")], {"User:app": ["A.orders"]}),
        ([acl("app", "*", pattern="LITERAL")], {"User:app": ["A.bills", "A.orders"]}),
        ([acl("app", "B.")], {}),
        ([acl("app"), acl("app", "A.bills", permission="DENY")], {"User:app": ["A.orders"]}),
        ([acl("app"), acl("*", operation="ALL", permission="DENY")], {}),
        ([acl("app"), acl("app", permission="DENY", host="10.0.0.7")], {"User:app": ["A.bills", "A.orders"]}),
    ],
)
def test_who_may_write_is_found_by_names_prefixes_and_denials(
    bindings: list[AclBinding], found: dict[str, list[str]]
) -> None:
    assert find_writers(TOPICS, bindings) == found


def test_one_writer_is_the_mirror_and_another_is_named_with_its_topics() -> None:
    well = judge_writers("B", TOPICS, [acl("mirror")])
    assert (well.level, well.said) == (
        Level.OK,
        "by the ACLs, only User:mirror and super users may write to 2 topics whose offsets are kept",
    )
    told = judge_writers("B", TOPICS, [acl("mirror"), acl("app", "A.orders", pattern="LITERAL")])
    assert told.level is Level.WARN
    assert "User:app (1 of them: A.orders), User:mirror may write to 2 topics" in told.said


def test_everybody_counts_as_many_and_no_authorizer_as_everybody() -> None:
    assert judge_writers("B", TOPICS, [acl("*")]).level is Level.WARN
    told = judge_writers("B", TOPICS, None)
    assert (told.level, "any client may write" in told.said) == (Level.WARN, True)
    assert judge_writers("B", TOPICS, []).said.startswith("by the ACLs, only super users")
