"""Transactional ids are MirrorMaker's."""

from sparkmirror.kafka.fencing import transactional_id


def test_ids_are_those_a_live_mirrormaker_lists() -> None:
    assert [transactional_id("A", task) for task in (0, 12)] == [
        "A-mm2-MirrorSourceConnector-0",
        "A-mm2-MirrorSourceConnector-12",
    ]
