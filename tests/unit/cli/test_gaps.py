"""What `sparkmirror gaps` prints."""

from tests import examples

from sparkmirror.cli.gaps import render
from sparkmirror.ledger.gaps import Gap
from sparkmirror.ledger.lineage import TARGET_DELETED
from sparkmirror.model import TopicPartition
from sparkmirror.views.table import page_lines

AT_MS = 1_772_357_400_000


def test_each_gap_is_a_line_that_says_whose_offsets_it_means() -> None:
    gaps = [
        Gap(TopicPartition("orders", 0), "retention", 300, 500, "went on", AT_MS),
        Gap(TopicPartition("bills", 3), TARGET_DELETED, 300, 0, "partition paused", AT_MS + 1000),
    ]
    lines = page_lines(render("A->B", gaps))
    assert lines[2].split()[1:7] == ["orders-0", "source", "300", "500", "200", "retention"]
    assert lines[3].split()[1:6] == ["bills-3", "target", "300", "0", "300"]
    examples.check("lost-records.md", "gaps", "\n".join(lines))


def test_a_flow_without_gaps_says_so() -> None:
    assert render("A->B", []) == ["A->B: no gaps"]
