"""The plan of the topic job, case by case."""

from dataclasses import replace
from uuid import UUID

import pytest

from sparkmirror.model import Topic
from sparkmirror.sync.change import Change, Plan, describe_change
from sparkmirror.sync.topics import AddPartitions, CreateTopic, TopicRules, TopicSnapshot, beyond, plan_topics

RULES = TopicRules(is_mirrored=lambda name: True, remote_name=lambda name: f"A.{name}")


def topic(name: str, partitions: int = 4, **configs: str) -> Topic:
    dotted = {key.replace("_", "."): value for key, value in configs.items()}
    return Topic(name, UUID(int=1), partitions, 3, configs=dotted)


def snapshot(source: list[Topic], target: list[Topic] | None = None, brokers: int = 3) -> TopicSnapshot:
    return TopicSnapshot({one.name: one for one in source}, {one.name: one for one in target or []}, brokers)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ([], [topic("A.old")], ()),
        ([topic("orders")], [], (CreateTopic("A.orders", "orders", 4, 2),)),
        ([topic("orders")], [topic("A.orders")], ()),
        ([topic("orders", 6)], [topic("A.orders", 4)], (AddPartitions("A.orders", "orders", 6, 4),)),
        ([topic("orders", 2)], [topic("A.orders", 4)], ()),
        ([topic("orders")], [topic("orders")], (CreateTopic("A.orders", "orders", 4, 2),)),
        (
            [topic("b"), topic("a", 9)],
            [topic("A.a", 1)],
            (AddPartitions("A.a", "a", 9, 1), CreateTopic("A.b", "b", 4, 2)),
        ),
    ],
    ids=["nothing mirrored", "new", "in step", "grew", "never shrinks", "other name", "sorted by source"],
)
def test_the_topic_plan_creates_and_grows_and_deletes_nothing(
    source: list[Topic], target: list[Topic], expected: tuple[Change, ...]
) -> None:
    assert plan_topics(snapshot(source, target), RULES) == Plan(expected)


@pytest.mark.parametrize(
    ("sizes", "later"),
    [((100, 100, 50), ""), ((100, 100, 51, 1), "cd"), ((900, 1), "b"), ((900,), ""), ((), "")],
    ids=["all at once", "the last ones later", "one large topic alone", "never none", "nothing"],
)
def test_of_very_many_new_topics_some_are_made_later(sizes: tuple[int, ...], later: str) -> None:
    topics = {name: topic(name, size) for name, size in zip("abcd", sizes, strict=False)}
    assert "".join(beyond(topics, sorted(topics), 250)) == later


def test_a_new_topic_takes_the_settings_it_is_given() -> None:
    source = topic("orders", cleanup_policy="compact")
    (action,) = plan_topics(snapshot([source]), RULES).changes
    assert action == CreateTopic("A.orders", "orders", 4, 2, {"cleanup.policy": "compact"})


def test_the_replication_factor_is_lowered_to_the_brokers_there_are_with_one_warning() -> None:
    plan = plan_topics(snapshot([topic("a"), topic("b")], brokers=1), RULES)
    assert [action.replication_factor for action in plan.changes if isinstance(action, CreateTopic)] == [1, 1]
    assert plan.warnings == ("The target has 1 broker(s): new topics get replication factor 1 instead of 2.",)


def test_without_new_topics_the_replication_factor_is_no_matter() -> None:
    assert plan_topics(snapshot([topic("a")], [topic("A.a")], brokers=1), RULES) == Plan()


def test_minus_one_passes_through() -> None:
    plan = plan_topics(snapshot([topic("a")], brokers=1), replace(RULES, replication_factor=-1))
    assert plan == Plan((CreateTopic("A.a", "a", 4, -1),))


def test_two_topics_of_one_remote_name_are_not_mixed() -> None:
    rules = replace(RULES, remote_name=lambda name: "all")
    plan = plan_topics(snapshot([topic("b", 9), topic("a")]), rules)
    assert plan.changes == (CreateTopic("all", "a", 4, 2),)
    assert "b is left out" in plan.warnings[0]


def test_a_topic_whose_settings_are_unknown_waits_while_the_others_go_on() -> None:
    seen = replace(snapshot([topic("a"), topic("b")]), unreadable=frozenset({"a"}))
    plan = plan_topics(seen, RULES)
    assert [action.name for action in plan.changes if isinstance(action, CreateTopic)] == ["A.b"]
    assert plan.warnings == ("The settings of a could not be read: A.a is not created yet.",)


def test_an_applied_plan_leaves_nothing_to_plan() -> None:
    source = [topic("a", 7), topic("b", 3, cleanup_policy="compact")]
    target = [topic("A.a", 2)]
    actions = plan_topics(snapshot(source, target), RULES).changes
    applied = {one.name: one for one in target}
    for action in actions:
        assert isinstance(action, CreateTopic | AddPartitions)
        applied[action.name] = topic(action.name, action.partitions)
    assert plan_topics(snapshot(source, list(applied.values())), RULES) == Plan()


def test_topics_that_the_brokers_create_take_nothing_from_their_source_and_never_grow() -> None:
    rules = replace(RULES, by_broker=True, remote_name=lambda name: name)
    seen = snapshot([topic("a", 7, cleanup_policy="compact"), topic("b", 5)], [topic("b", 2)])
    plan = plan_topics(replace(seen, unreadable=frozenset({"a"})), replace(rules, replication_factor=-1))
    assert plan == Plan((CreateTopic("a", "a", -1, -1),))
    assert [change.sentence for change in plan.changes] == ["let the brokers create a for a"]


def test_the_plan_reads_as_sentences() -> None:
    changes = (
        CreateTopic("A.a", "a", 4, 2, {"cleanup.policy": "compact", "retention.ms": "1"}),
        CreateTopic("A.b", "b", 1, -1),
        AddPartitions("A.c", "c", 6, 4),
    )
    assert [change.sentence for change in changes] == [
        "create A.a for a: 4 partitions, replication factor 2, cleanup.policy=compact, retention.ms=1",
        "create A.b for b: 1 partitions, the brokers' replication factor",
        "grow A.c from 4 to 6 partitions, like c",
    ]


def test_a_topic_plan_can_be_written_as_json() -> None:
    assert describe_change(AddPartitions("A.c", "c", 6, 4)) == {
        "change": "add-partitions",
        "name": "A.c",
        "source_topic": "c",
        "partitions": 6,
        "partitions_now": 4,
    }


def test_topics_that_a_default_leaves_out_are_named() -> None:
    few = TopicSnapshot({}, {}, 3, left_out=("a.internal", "b.replica"))
    (said,) = plan_topics(few, RULES).warnings
    assert said.startswith("a.internal, b.replica: not mirrored, as the default of `topics.exclude` says")
    many = TopicSnapshot({}, {}, 3, left_out=tuple(f"t{number}.internal" for number in range(12)))
    assert "t9.internal and 2 more: not mirrored" in plan_topics(many, RULES).warnings[0]
