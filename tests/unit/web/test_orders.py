"""Orders from the page: what is one, and which partitions it is for."""

from typing import Any

import pytest

from sparkmirror.model import TopicPartition
from sparkmirror.web.orders import Order, parse_order


def test_an_order_is_for_a_flow_a_topic_or_a_partition() -> None:
    assert parse_order({"action": "pause", "flow": "A->B"}) == Order("pause", "A->B")
    assert parse_order({"action": "retry", "flow": "A->B", "topic": "t", "partition": 0}).partition == 0
    assert parse_order({"action": "resume", "flow": "A->B", "topic": "t", "partition": None}).topic == "t"


@pytest.mark.parametrize(
    "told",
    [
        None,
        [],
        "pause",
        {},
        {"action": "stop", "flow": "A->B"},
        {"action": ["pause"], "flow": "A->B"},
        {"action": "pause"},
        {"action": "pause", "flow": 1},
        {"action": "pause", "flow": "A->B", "topic": ""},
        {"action": "pause", "flow": "A->B", "topic": ["t"]},
        {"action": "pause", "flow": "A->B", "partition": 1},
        {"action": "pause", "flow": "A->B", "topic": "t", "partition": True},
        {"action": "pause", "flow": "A->B", "topic": "t", "partition": "1"},
    ],
)
def test_what_is_no_order_is_refused_with_a_sentence(told: Any) -> None:
    with pytest.raises(ValueError, match=r"order"):
        parse_order(told)


@pytest.mark.parametrize("name", ["orders", "a.b", "a-b_c", "A.(x)"])
def test_a_topic_of_an_order_is_that_topic_alone_whatever_signs_its_name_has(name: str) -> None:
    selection = Order("pause", "A->B", name, 3).selection
    assert selection.covers(TopicPartition(name, 3))
    assert not selection.covers(TopicPartition(name, 2))
    assert not selection.covers(TopicPartition(name.replace(".", "x"), 3)) or "." not in name


def test_an_order_without_a_topic_is_for_all_of_the_flow() -> None:
    assert Order("pause", "A->B").selection.covers(TopicPartition("any", 7))
