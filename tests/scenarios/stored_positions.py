"""Positions as they lie in the flow's own topic, read by an independent client."""

import json
from typing import Any

from tests.oracle import Client, read_messages

_ALIAS_TOPIC_PARTITION = 3


def stored_positions(target: Client, alias: str) -> list[tuple[list[Any], dict[str, Any]]]:
    """Key and value of each position, oldest first; none before the topic is there."""
    try:
        messages = read_messages(target, f"mm2-sparkmirror-positions.{alias}.internal")
    except AssertionError:
        return []
    stored = [(json.loads(one.key()), json.loads(one.value())) for _, some in messages for one in some]
    return [(key, value) for key, value in stored if len(key) == _ALIAS_TOPIC_PARTITION]
