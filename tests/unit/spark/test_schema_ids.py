"""Ids of schemas become those of the target's registry, each looked up once, with all that a schema refers to."""

import gc
import logging
import re
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from tests.manual_clock import ManualClock
from tests.schema_registry import SchemaRegistry, guid_of

from sparkmirror.config.flow.schema_registries import Registry, SchemaRegistries
from sparkmirror.config.flow.source_line import Source
from sparkmirror.errors import RegistryProblem
from sparkmirror.spark import schema_ids
from sparkmirror.spark.marked_values import MISFIT
from sparkmirror.spark.schema_ids import SchemaIds

ORDER = {"schema": '{"type": "record", "name": "Order", "fields": []}'}
SUBJECT = "A.orders-value"
LOGIN = "mirror:s3cret"
LINE = Source("transforms.schemas.target.url", 1, "mm2")


@pytest.fixture
def source() -> Iterator[SchemaRegistry]:
    with SchemaRegistry(first=1) as found:
        yield found


@pytest.fixture
def target() -> Iterator[SchemaRegistry]:
    with SchemaRegistry(first=100, login=LOGIN) as found:
        yield found


@pytest.fixture
def ids(source: SchemaRegistry, target: SchemaRegistry) -> SchemaIds:
    sides = Registry(source.url), Registry(target.url, LOGIN)
    return SchemaIds(SchemaRegistries(*sides, LINE))


def named(number: int, content: bytes = b"content") -> bytes:
    return b"\0" + number.to_bytes(4, "big") + content


def carried(ids: SchemaIds, *values: bytes | None, subject: str | None = SUBJECT) -> list[bytes | None]:
    found: list[bytes | None] = ids.carry(pa.array(values, pa.binary()), pa.array([subject] * len(values))).to_pylist()
    return found


def test_a_value_gets_the_id_of_its_schema_at_the_target_which_is_asked_once(
    source: SchemaRegistry, target: SchemaRegistry, ids: SchemaIds
) -> None:
    number = source.register("orders-value", ORDER)
    for _ in range(2):
        assert carried(ids, named(number), named(number, b""), None) == [named(100), named(100, b""), None]
    assert target.subjects == {SUBJECT: [100]} and target.ids[100] == ORDER
    assert source.asked == ["GET /schemas/ids/1"] and target.asked == [f"POST /subjects/{SUBJECT}/versions"]


def test_without_a_subject_it_keeps_the_source_s(
    source: SchemaRegistry, target: SchemaRegistry, ids: SchemaIds
) -> None:
    number = source.register("shop.Order/v1", ORDER)
    assert carried(ids, named(number), subject=None) == [named(100)]
    assert target.subjects == {"shop.Order/v1": [100]}


def test_what_names_no_schema_of_the_source_is_as_it_was_and_is_warned_of(
    source: SchemaRegistry, target: SchemaRegistry, ids: SchemaIds, caplog: pytest.LogCaptureFixture
) -> None:
    values = [b"", b"\0\0\0", b"plain text", b"\1\0\0\0\1", named(7)]
    with caplog.at_level(logging.WARNING):
        assert carried(ids, *values) == values
    assert "has no schema 7" in caplog.text and not target.asked
    source.register("orders-value", ORDER)
    assert ids.are_known(pa.array([*values, named(1), None])).to_pylist() == [False] * 5 + [True, None]


def test_an_unknown_id_is_asked_for_again_after_half_a_minute(source: SchemaRegistry, target: SchemaRegistry) -> None:
    clock = ManualClock()
    ids = SchemaIds(SchemaRegistries(Registry(source.url), Registry(target.url, LOGIN), LINE), clock)
    assert carried(ids, named(1)) == [named(1)]
    number = source.register("orders-value", ORDER)
    assert carried(ids, named(number)) == [named(number)], "it was asked for a moment ago"
    clock.now += 31
    assert carried(ids, named(number)) == [named(100)]


def test_an_id_is_confirmed_after_five_minutes_and_counts_while_no_registry_answers(
    source: SchemaRegistry, target: SchemaRegistry
) -> None:
    clock = ManualClock()
    ids = SchemaIds(SchemaRegistries(Registry(source.url), Registry(target.url, LOGIN), LINE), clock)
    number = source.register("orders-value", ORDER)
    given = header(guid_of(ORDER))
    assert carried(ids, named(number)) == [named(100)] and with_header(ids, given) == [given]
    target.ids, target.subjects = {}, {}
    target.register("others-value", {"schema": '"string"'})
    target.register(SUBJECT, ORDER)  # a registry that was set up again
    assert carried(ids, named(number)) == [named(100)], "it was confirmed a moment ago"
    clock.now += 301
    target.broken = 503, ""
    target.asked.clear()
    for _ in range(2):
        assert carried(ids, named(number)) == [named(100)] and with_header(ids, given) == [given]
    assert len(target.asked) == 1
    clock.now += 61
    target.broken = None
    assert carried(ids, named(number)) == [named(102)] and with_header(ids, given) == [given]


def test_no_more_ids_of_the_target_are_kept_than_of_the_source(
    source: SchemaRegistry, ids: SchemaIds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_ids, "_KNOWN_MAX", 3)
    number = source.register("orders-value", ORDER)
    for at in range(10):
        assert carried(ids, named(number), subject=f"A.orders-{at}") == [named(100)]
    assert len(ids._carried) <= 3


def test_an_answer_that_is_no_registry_s_is_no_unknown_schema(source: SchemaRegistry, ids: SchemaIds) -> None:
    """A proxy's 404 would otherwise let values pass with the source's ids."""
    number = source.register("orders-value", ORDER)
    for broken in ((404, "no such page"), (404, {"error": "not found"}), (500, {"error_code": 50001}), (503, "")):
        source.broken = broken
        with pytest.raises(RegistryProblem, match=f"refuses GET .* with status {broken[0]}") as caught:
            carried(ids, named(number))
        assert caught.value.hint
    source.broken = None
    assert carried(ids, named(number)) == [named(100)]


def header(guid: str, more: bytes = b"") -> dict[str, Any]:
    return {"key": "__value_schema_id", "value": b"\1" + uuid.UUID(guid).bytes + more}


def with_header(ids: SchemaIds, *headers: dict[str, Any], subject: str | None = SUBJECT) -> list[dict[str, Any]]:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    (found,) = ids.carry_header(
        pa.array([list(headers)], kind), pa.array(["__value_schema_id"]), pa.array([subject], pa.string())
    ).to_pylist()
    assert isinstance(found, list)
    return found


def test_a_header_gets_the_guid_that_the_schema_has_at_the_target(
    source: SchemaRegistry, target: SchemaRegistry, ids: SchemaIds
) -> None:
    source.register("orders-value", ORDER)
    others = [{"key": "trace", "value": b"1"}, {"key": "__key_schema_id", "value": b"\1" + bytes(16)}]
    given = header(guid_of(ORDER), b"\2\0")
    assert with_header(ids, *others, given) == [*others, given], "one schema has one GUID everywhere"
    assert target.subjects == {SUBJECT: [100]}
    assert with_header(ids, given, subject=None) == [given] and "orders-value" in target.subjects

    money = {"schema": '{"type": "fixed", "name": "Money", "size": 8}'}
    source.register("money-value", {"schema": '"string"'})
    source.register("money-value", money)
    cart = {"schema": '"Money"', "references": [{"name": "Money", "subject": "money-value", "version": 2}]}
    source.register("carts-value", cart)
    at_target = cart | {"references": [{"name": "Money", "subject": "money-value", "version": 1}]}
    assert guid_of(cart) != guid_of(at_target)
    assert with_header(ids, header(guid_of(cart))) == [header(guid_of(at_target))]


def test_a_header_may_have_an_id_and_what_it_names_nothing_by_stays(source: SchemaRegistry, ids: SchemaIds) -> None:
    number = source.register("orders-value", ORDER)
    twice = [{"key": "__value_schema_id", "value": named(number, b"")} for _ in range(2)]
    assert with_header(ids, *twice) == [twice[0], {"key": "__value_schema_id", "value": named(100, b"")}]
    for odd in (b"", b"\1short", b"\2" + bytes(16), b"\1" + bytes(16)):
        assert with_header(ids, {"key": "__value_schema_id", "value": odd})[0]["value"] == odd
    empty = {"key": "__value_schema_id", "value": None}
    assert with_header(ids, empty) == [empty] and with_header(ids) == []


def test_what_a_schema_refers_to_is_registered_before_it_in_the_versions_there(
    source: SchemaRegistry, target: SchemaRegistry, ids: SchemaIds
) -> None:
    money, item = {"schema": "money", "schemaType": "PROTOBUF"}, {"schema": "item", "schemaType": "PROTOBUF"}
    source.register("money", {"schema": "money of old", "schemaType": "PROTOBUF"})
    source.register("money", money)
    item["references"] = [{"name": "money.proto", "subject": "money", "version": 2}]  # type: ignore[assignment]
    source.register("item", item)
    cart = {"schema": "cart", "schemaType": "PROTOBUF",
            "references": [{"name": "item.proto", "subject": "item", "version": 1},
                           {"name": "money.proto", "subject": "money", "version": 2}]}  # fmt: skip
    number = source.register("carts-value", cart)
    assert carried(ids, named(number, b"\0x"), subject="A.carts-value") == [named(102, b"\0x")]
    assert target.subjects == {"money": [100], "item": [101], "A.carts-value": [102]}
    assert [one["version"] for one in target.ids[102]["references"]] == [1, 1]
    assert target.ids[100] == money


def test_a_registry_that_refuses_or_is_away_is_a_sentence_without_the_password(
    source: SchemaRegistry, target: SchemaRegistry
) -> None:
    number = source.register("orders-value", ORDER)
    target.refuses = True
    clock = ManualClock()
    ids = SchemaIds(SchemaRegistries(Registry(source.url), Registry(target.url, LOGIN), LINE), clock)
    marked, _ = carried(ids, named(number), named(number))
    why = rf"{target.url} refuses POST .* with status 409: .*incompatible.*register the schema by hand".encode()
    assert marked is not None and marked.startswith(MISFIT) and re.search(why, marked)
    assert len(target.asked) == 1, "one record of a batch asks"
    before = len(gc.get_objects())
    carried(ids, *[named(number)] * 2_000)
    assert len(gc.get_objects()) - before < 1_000, "of each refused record something is kept"
    target.refuses = False
    clock.now += 3
    assert carried(ids, named(number)) == [named(100)], "a refusal is not kept"
    stranger = SchemaIds(SchemaRegistries(Registry(source.url), Registry(target.url), Source("k", 1, "mm2")))
    with pytest.raises(RegistryProblem, match="status 401"):
        carried(stranger, named(number))
    away = Registry("http://127.0.0.1:1", LOGIN)
    nobody = SchemaIds(SchemaRegistries(away, away, Source("k", 1, "mm2")))
    with pytest.raises(RegistryProblem, match="does not answer") as caught:
        carried(nobody, named(number))
    assert "s3cret" not in str(caught.value) + repr(away)


def test_a_subject_that_cannot_be_concerns_its_own_records_alone(source: SchemaRegistry, ids: SchemaIds) -> None:
    number = source.register("orders-value", ORDER)
    subjects = pa.array([b"\xff-value", SUBJECT.encode(), b"\xc3\xa4", None], pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(subjects), subjects.buffers())
    values = pa.array([named(number)] * 4, pa.binary())
    broken, first, second, kept = ids.carry(values, text).to_pylist()
    assert broken.startswith(MISFIT) and rb"its subject is no text: b'\xff-value'" in broken
    assert [first, second, kept] == [named(100)] * 3
    assert ids.carry(pa.array([b"plain"]), text[:1]).to_pylist() == [b"plain"], "it has no schema"
    source.subjects.clear()
    unnamed = source.register("others-value", {"schema": '"string"'})
    source.subjects.clear()
    (marked,) = carried(ids, named(unnamed), subject=None)
    assert marked is not None and marked.startswith(MISFIT) and b"under no subject" in marked


def test_a_header_whose_name_is_no_text_passes(source: SchemaRegistry, ids: SchemaIds) -> None:
    source.register("orders-value", ORDER)
    names = pa.array([b"x", b"\xff\xfe", b"__value_schema_id", b"\xff", None], pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(names), names.buffers())
    guid = header(guid_of(ORDER))["value"]
    content = pa.StructArray.from_arrays([text, pa.array([b"x", b"1", guid, None, guid])], ["key", "value"])
    whole = pa.ListArray.from_arrays(pa.array([0, 1, 4, None, 4, 5], pa.int32()), content)
    given = whole.slice(1)  # as Arrow may hand it over
    odd = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"], pa.binary()).buffers())
    assert ids.carry_header(given[:1], odd, pa.array([SUBJECT])).flatten().field("value").to_pylist()[0] == b"1"
    found = ids.carry_header(given, pa.array(["__value_schema_id"] * 4), pa.array([SUBJECT] * 4))
    assert found.type == given.type and found.is_valid().to_pylist() == [True, True, False, True]
    assert found.values.field("key").cast(pa.binary()).equals(names)
    assert found.flatten().field("value").to_pylist() == [b"1", guid, None, guid]
