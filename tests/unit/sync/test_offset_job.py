"""How old what the offset job writes may be at most."""

import pytest

from sparkmirror.config.flow.flows import parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.sync.offset_job import OffsetJob

LINES = ("clusters = A, B", "A.bootstrap.servers = a:1", "B.bootstrap.servers = b:1", "A->B.enabled = true")


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        ((), 60),
        (("refresh.groups.interval.seconds = 7",), 7),
        (("refresh.groups.interval.seconds = 7", "refresh.groups.enabled = false"), 60),
        (("sync.group.offsets.interval.seconds = 9",), 60),
        (("sync.group.offsets.interval.seconds = 9", "sync.group.offsets.enabled = true"), 9),
    ],
)
def test_the_shortest_interval_of_what_is_on_is_kept(lines: tuple[str, ...], seconds: float) -> None:
    (flow,) = parse_config(parse_properties("\n".join([*LINES, *lines]).encode(), "mm2.properties")).flows
    assert OffsetJob(flow).seconds_max == seconds
