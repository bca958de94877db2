"""From what is known to an answer: the map first, syncs below it, the opposite flow's map on the way home."""

from dataclasses import replace
from uuid import UUID

from sparkmirror.ledger.lineage import Extent
from sparkmirror.ledger.map_records import ChunkName, MapView, encode_chunk, encode_key
from sparkmirror.ledger.mirror_records import Checkpoint, OffsetSync
from sparkmirror.ledger.offset_map import OffsetMap
from sparkmirror.ledger.positions import Accepted, PositionRecord
from sparkmirror.ledger.syncs import OffsetSyncStore
from sparkmirror.ledger.translate import Translated, Translator, downstream_now, settle_known
from sparkmirror.model import NO_TOPIC_ID, FlowName, Position, TopicPartition
from sparkmirror.policy.naming import DefaultReplicationPolicy

ORDERS = TopicPartition("orders", 3)
REMOTE = TopicPartition("A.orders", 3)
POLICY = DefaultReplicationPolicy()
OURS, OTHER = UUID(int=7), UUID(int=8)
KEEPS = ORDERS.topic.__eq__


def view(alias: str, partition: TopicPartition, *spans: tuple[int, int, int], source_id: UUID = NO_TOPIC_ID) -> MapView:
    found = OffsetMap(spans[0][0], NO_TOPIC_ID, source_id)
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


def test_a_group_goes_to_the_beginning_of_a_home_that_was_made_again() -> None:
    """Its log has other records than those that the group has read of the former one."""
    opposite = view("A", ORDERS, (0, 10, 0), source_id=OURS)
    home = Translator(FlowName("B", "A"), POLICY, MapView("B"), opposite=opposite).translate(REMOTE, 7)
    same, again = ({ORDERS: Extent("orders", topic_id, 20)} for topic_id in (OURS, OTHER))
    found, former = settle_known(home, same), settle_known(home, again)
    assert found is not None and (found.offset, found.exact) == (7, True)
    assert former is not None and (former.offset, former.exact, former.cut) == (0, False, True)


def test_only_the_last_hop_is_undone_on_the_way_home() -> None:
    """What A had from X is called X.orders there (MirrorMaker would look for `orders`)."""
    x_orders = TopicPartition("X.orders", 0)
    known = Translator(FlowName("B", "A"), POLICY, MapView("B"), opposite=view("A", x_orders, (0, 9, 0)))
    assert known.translate(TopicPartition("A.X.orders", 0), 5) == Translated(x_orders, 5, True)


def test_without_an_opposite_flow_a_remote_topic_is_like_any_other() -> None:
    known = Translator(FlowName("B", "A"), POLICY, MapView("B"))
    assert known.translate(REMOTE, 3) is None


def kept(
    *, offset: int = 500, topic_id: UUID | None = OURS, is_aligned: bool = True, maps: MapView | None = None
) -> Translator:
    extent = None if topic_id is None else Extent(REMOTE.topic, topic_id, 400)
    record = PositionRecord(Position(offset), 1, 0, extent=extent, is_aligned=is_aligned)
    return Translator(FlowName("A", "B"), POLICY, maps or MapView("A"), kept={ORDERS: record}, keeps=KEEPS)


def test_a_topic_that_does_not_keep_its_offsets_is_translated_by_its_map_beside_one_that_does() -> None:
    others = TopicPartition("others", 0)
    known = replace(kept(), maps=view("A", others, (0, 900, 70)))
    found = known.translate(others, 450)
    assert found is not None and (found.offset, found.is_kept) == (520, False)


def in_log(known: Translator, offset: int, topic_id: UUID = OURS, end: int = 1000) -> tuple[int, bool] | None:
    found = settle_known(known.translate(ORDERS, offset), {REMOTE: Extent(REMOTE.topic, topic_id, end)})
    return None if found is None else (found.offset, found.exact)


def test_a_flow_that_keeps_offsets_answers_with_the_offset_itself_up_to_its_position() -> None:
    assert in_log(kept(), 450) == (450, True)
    assert in_log(kept(), 500) == (500, True)
    assert in_log(kept(), 550) == (500, False), "what lies beyond may be somebody else's"
    assert in_log(kept(), 450, end=440) == (440, False)


def test_kept_offsets_are_no_answer_without_an_aligned_position_in_the_same_topic() -> None:
    assert in_log(kept(is_aligned=False), 450) is None
    assert in_log(Translator(FlowName("A", "B"), POLICY, view("A", ORDERS, (0, 0, 900)), keeps=KEEPS), 450) is None
    assert in_log(kept(), 450, topic_id=OTHER) is None
    assert in_log(kept(topic_id=None), 450) is None
    assert in_log(kept(topic_id=NO_TOPIC_ID), 450, topic_id=NO_TOPIC_ID) is None


def test_where_it_is_accepted_that_logs_part_offsets_are_kept_up_to_there_and_the_map_tells_what_follows() -> None:
    accepted = {ORDERS: Accepted(400, OURS)}
    known = OffsetMap(400, topic_id=OURS)
    known.append(400, 100, 430)
    maps = MapView("A")
    maps.take(encode_key("A", ORDERS, ChunkName(1, 1, 0)), encode_chunk(known.as_chunk()))
    parted = replace(kept(is_aligned=False, maps=maps), accepted=accepted)
    assert [in_log(parted, offset) for offset in (399, 400, 450)] == [(399, True), (430, True), (480, True)]
    assert in_log(parted, 399, topic_id=OTHER) is None, "of the topic that it was accepted for"
    without = replace(kept(is_aligned=False), accepted=accepted)
    assert [in_log(without, offset) for offset in (399, 400, 450)] == [(399, True), (400, False), (400, False)]
    again = replace(kept(), accepted=accepted)
    assert in_log(again, 450) == (450, True), "the topic was made again, and keeps its offsets"


def test_the_map_names_the_topic_where_a_position_does_not() -> None:
    """After a start without new records."""
    known = OffsetMap(0, topic_id=OURS)
    known.append(0, 0, 400)
    maps = MapView("A")
    maps.take(encode_key("A", ORDERS, ChunkName(1, 1, 0)), encode_chunk(known.as_chunk()))
    assert in_log(kept(topic_id=None, maps=maps), 450) == (450, True)
    assert in_log(kept(topic_id=None, maps=maps), 450, topic_id=OTHER) is None


def test_a_checkpoint_of_a_flow_that_keeps_offsets_counts_with_a_translation_alone() -> None:
    stored, logs = Checkpoint("g", REMOTE, 450, 450, ""), {REMOTE: Extent(REMOTE.topic, OTHER, 1000)}
    nothing = settle_known(kept().translate(ORDERS, 450), logs)
    assert downstream_now(stored, nothing, logs, keeps_offsets=True) is None
    assert downstream_now(stored, nothing, logs) == 450
    now = settle_known(kept().translate(ORDERS, 450), {REMOTE: Extent(REMOTE.topic, OURS, 1000)})
    assert downstream_now(stored, now, logs, keeps_offsets=True) == 450
