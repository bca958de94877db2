"""Who feeds whom, from heartbeats alone, and the four ways to show it."""

from xml.etree import ElementTree

from sparkmirror.ledger.mirror_records import Heartbeat
from sparkmirror.model import FlowName
from sparkmirror.views.topology import Topology, read_topology, render_dot, render_svg, render_text

NOW_MS = 1_795_172_400_000


def beat(source: str, target: str, age_seconds: float) -> Heartbeat:
    return Heartbeat(FlowName(source, target), NOW_MS - round(age_seconds * 1000))


def chain() -> Topology:
    """Z -> A -> B seen from B, with A's way back announced; the stretch from Z has been silent for five minutes."""
    return read_topology(
        "B",
        NOW_MS,
        {
            (): [beat("A", "B", 3), beat("A", "B", 1)],
            ("A",): [beat("Z", "A", 2), beat("B", "A", 0.5), beat("Z", "A", 4)],
            ("A", "Z"): [beat("A", "Z", 300)],
        },
    )


def test_what_arrives_comes_with_its_hops_and_what_is_announced_without() -> None:
    found = [(str(feed.flow), feed.hops, chain().age_seconds(feed)) for feed in chain().feeds]
    assert found == [("A->B", 1, 0.5), ("Z->A", 2, 300.0), ("A->Z", 0, 300.0), ("B->A", 0, 0.5)]
    assert chain().hops_from() == {"B": 0, "A": 1, "Z": 2}


def test_text_says_what_is_silent() -> None:
    assert render_text(chain()) == [
        "B, by its heartbeats at 2026-11-20T11:00:00+00:00:",
        "  A->B  1 hop   0.5 s ago",
        "  Z->A  2 hops  5 min ago, silent",
        "announced; whether records flow cannot be seen on B:",
        "  A->Z          5 min ago, silent",
        "  B->A          0.5 s ago",
    ]


def test_a_cluster_without_heartbeats_is_reported() -> None:
    empty = read_topology("B", NOW_MS, {(): []})
    assert "no heartbeats" in render_text(empty)[1]
    assert ElementTree.fromstring("\n".join(render_svg(empty))) is not None


def test_a_clock_that_is_behind_gives_no_negative_age() -> None:
    ahead = read_topology("B", NOW_MS, {("A",): [beat("Z", "A", -60)]})
    assert [ahead.age_seconds(feed) for feed in ahead.feeds] == [0, 0]


def test_dot_dashes_what_is_only_announced_and_quotes_names() -> None:
    lines = render_dot(read_topology('B"', NOW_MS, {("A",): [beat("Z", "A", 1)]}))
    assert '  "A" -> "B\\"" [label="1.0 s", color="#1a7f37"];' in lines
    assert '  "Z" -> "A" [label="1.0 s", color="#6e7781", style=dashed];' in lines


def test_the_picture_is_xml_with_a_box_for_each_cluster_and_an_arrow_for_each_pair() -> None:
    page_state = ElementTree.fromstring("\n".join(render_svg(chain())))
    space = "{http://www.w3.org/2000/svg}"
    columns = {
        (label.text or ""): int(box.get("x", ""))
        for box, label in zip(page_state.iter(f"{space}rect"), list(page_state.iter(f"{space}text"))[-3:], strict=True)
    }
    assert columns["Z"] < columns["A"] < columns["B"]
    assert len([path for path in page_state.iter(f"{space}path") if path.get("marker-end")]) == 4


def test_names_from_other_peoples_records_cannot_break_the_picture() -> None:
    page_state = "\n".join(render_svg(read_topology("B", NOW_MS, {(): [beat("<script>", "B", 1)]})))
    assert "<script>" not in page_state
    assert ElementTree.fromstring(page_state) is not None


def test_json_of_the_topology_has_the_same_content() -> None:
    first = chain().as_json()["feeds"][0]
    assert first == {
        "source": "A", "target": "B", "records_arrive": True, "hops": 1, "age_seconds": 0.5, "silent": False
    }  # fmt: skip
