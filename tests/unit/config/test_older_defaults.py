"""A file that depends on a default which MirrorMaker has changed is noted by `config check`."""

import pytest

from sparkmirror.config.explain import notes_on
from sparkmirror.config.flow.flows import parse_config
from sparkmirror.config.formats.properties import parse_properties

FILE = """\
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
"""


@pytest.mark.parametrize(
    ("lines", "depends"),
    [
        ("", True),
        ("topics = orders.*", True),
        ("topics = orders, orders.internal", True),
        (r"topics = orders\\.internal", True),
        ("topics = orders-internal", True),
        ("topics = orders, payments_2", False),
        ("topics.exclude = audit", False),
        (r"topics.exclude = .*[\\-\\.]internal, .*\\.replica, __.*", False),
    ],
)
def test_a_flow_without_topics_exclude_may_mirror_what_an_older_mirrormaker_left_out(lines: str, depends: bool) -> None:
    config = parse_config(parse_properties((FILE + lines + "\n").encode(), "mm2"))
    notes = list(notes_on(config.flows))
    assert bool(notes) is depends
    assert all(note.startswith("A->B leaves `topics.exclude` out") for note in notes)
