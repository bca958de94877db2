"""Heartbeats of every ordered pair of clusters, mirrored or not, as `MirrorMakerConfig.clusterPairs` has them."""

from collections.abc import Sequence

import pytest

from sparkmirror.config.flow.flows import parse_config
from sparkmirror.config.formats.properties import parse_properties

CLUSTERS = "clusters = A, B, C\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nC.bootstrap.servers = c:1\n"


def pairs(lines: str, targets: Sequence[str] = (), flows: Sequence[str] = ()) -> list[str]:
    text = f"{CLUSTERS}A->B.enabled = true\n{lines}\n"
    config = parse_config(parse_properties(text.encode()), targets, flows)
    assert [str(flow.name) for flow in config.flows] == ["A->B"]
    return [str(beat.flow) for beat in config.heartbeats]


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ("", ["A->B", "A->C", "B->A", "B->C", "C->A", "C->B"]),
        ("B->A.enabled = false", ["A->B", "A->C", "B->A", "B->C", "C->A", "C->B"]),
        ("emit.heartbeats.enabled = false", []),
        ("A->B.emit.heartbeats.enabled = false\nC->A.emit.heartbeats.enabled = no", ["A->C", "B->A", "B->C", "C->B"]),
        ("emit.heartbeats.enabled = false\nA->B.emit.heartbeats.enabled = true \n", ["A->B"]),
        ("emit.heartbeats.enabled = false\nC->B.emit.heartbeats.enabled = true", ["C->B"]),
    ],
)
def test_a_pair_s_own_switch_beats_the_one_of_all(lines: str, wanted: list[str]) -> None:
    assert pairs(lines) == wanted


def test_a_mirror_of_some_clusters_beats_only_into_them() -> None:
    assert pairs("", targets=("B",)) == ["A->B", "C->B"]
    assert pairs("", flows=("A->B",)) == ["A->B"]


def test_a_blank_behind_a_switch_does_not_turn_it_off() -> None:
    """As in MirrorMaker, whose connectors trim it. Only a pair without heartbeats does not run there then."""
    lines = CLUSTERS + "A->B.enabled = true \nB->A.enabled = true\nA->C.enabled = false \n"
    config = parse_config(parse_properties(lines.encode()))
    assert [str(flow.name) for flow in config.flows] == ["A->B", "B->A"]
    assert config.warnings == ()
    config = parse_config(parse_properties(f"{lines}emit.heartbeats.enabled = false\n".encode()))
    assert [str(flow.name) for flow in config.flows] == ["A->B", "B->A"]
    (warning,) = config.warnings
    assert warning == (
        "<properties>:5: `A->B.enabled` ends with a blank: MirrorMaker, without heartbeats of A->B, takes it for "
        "false; remove the blank"
    )
