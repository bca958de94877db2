"""Transactional ids are MirrorMaker's."""

from sparkmirror.kafka.fencing import transactional_id
from sparkmirror.model import Connector


def test_ids_are_those_a_live_mirrormaker_lists() -> None:
    assert [transactional_id(Connector.of_dedicated_mode("A"), task) for task in (0, 12)] == [
        "A-mm2-MirrorSourceConnector-0",
        "A-mm2-MirrorSourceConnector-12",
    ]
