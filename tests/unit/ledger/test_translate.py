"""From what is known to an answer: the map first, syncs below it, the opposite flow's map on the way home."""

from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.map_records import ChunkName, MapView, encode_chunk, encode_key
from sparkmirror.ledger.mirror_records import OffsetSync
from sparkmirror.ledger.offset_map import OffsetMap
from sparkmirror.ledger.syncs import OffsetSyncStore
from sparkmirror.ledger.translate import Translated, Translator, settle
from sparkmirror.model import NO_TOPIC_ID, FlowName, TopicPartition
from sparkmirror.policy.naming import DefaultReplicationPolicy

ORDERS = TopicPartition("orders", 3)
REMOTE = TopicPartition("A.orders", 3)
POLICY = DefaultReplicationPolicy()


def view(alias: str, partition: TopicPartition, *spans: tuple[int, int, int]) -> MapView:
    found = OffsetMap(spans[0][0])
    for span in spans:
        found.append(*span)
    maps = MapView(alias)
    maps.take(encode_key(alias, partition, ChunkName(1, 1, 0)), encode_chunk(found.as_chunk()))
    return maps


def syncs(*pairs: tuple[int, int]) -> OffsetSyncStore:
    store = OffsetSyncStore()
    for upstream, downstream in pairs:
        store.add(OffsetSync(ORDERS, upstream, downstream))
    return store


def test_the_map_answers_exactly_and_mirrormakers_syncs_below_it() -> None:
    known = Translator(FlowName("A", "B"), POLICY, view("A", ORDERS, (500, 100, 400)), syncs((100, 90), (200, 180)))
    assert known.translate(ORDERS, 550) == Translated(REMOTE, 450, True)
    assert known.translate(ORDERS, 250) == Translated(REMOTE, 181, False)
    assert known.translate(ORDERS, 50) is None
    assert known.translate(TopicPartition("other", 0), 5) is None


def test_a_sync_never_leads_beyond_where_the_map_begins() -> None:
    """Its neighbour may have been written by a mirror whose records were sent again."""
    known = Translator(FlowName("A", "B"), POLICY, view("A", ORDERS, (500, 100, 400)), syncs((499, 405)))
    assert known.translate(ORDERS, 499) == Translated(REMOTE, 400, False)


def test_without_any_map_syncs_are_mirrormakers_word() -> None:
    known = Translator(FlowName("A", "B"), POLICY, MapView("A"), syncs((100, 200)))
    assert known.translate(ORDERS, 150) == Translated(REMOTE, 201, False)


def test_a_group_goes_home_by_the_opposite_flows_map() -> None:
    """The flow B->A meets A.orders on B, which came from A: there it is `orders`."""
    opposite = view("A", ORDERS, (0, 3, 0), (4, 10, 3))
    known = Translator(FlowName("B", "A"), POLICY, MapView("B"), opposite=opposite)
    assert known.translate(REMOTE, 3) == Translated(ORDERS, 4, True)
    assert known.translate(TopicPartition("A.other", 3), 3) is None


def test_only_the_last_hop_is_undone_on_the_way_home() -> None:
    """What A had from X is called X.orders there (MirrorMaker would look for `orders`)."""
    x_orders = TopicPartition("X.orders", 0)
    known = Translator(FlowName("B", "A"), POLICY, MapView("B"), opposite=view("A", x_orders, (0, 9, 0)))
    assert known.translate(TopicPartition("A.X.orders", 0), 5) == Translated(x_orders, 5, True)


def test_without_an_opposite_flow_a_remote_topic_is_like_any_other() -> None:
    known = Translator(FlowName("B", "A"), POLICY, MapView("B"))
    assert known.translate(REMOTE, 3) is None


def test_a_flow_that_keeps_offsets_answers_with_the_offset_itself_and_within_the_log() -> None:
    known = Translator(FlowName("A", "B"), POLICY, MapView("A"), keeps_offsets=True)
    assert known.translate(ORDERS, 550) == Translated(REMOTE, 550, True)
    settled = settle(Translated(REMOTE, 550, True), Extent(REMOTE.topic, NO_TOPIC_ID, 540))
    assert (settled.offset, settled.cut) == (540, True)
