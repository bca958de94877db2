"""The values that are copied, and the choice of what to run."""

import json

import cramjam
import pytest
from bench.command import chosen
from bench.workloads import MARK, WORKLOADS, make_records, make_values


@pytest.mark.parametrize("value_bytes", [100, 1000])
def test_values_are_distinct_and_of_the_size_asked_for(value_bytes: int) -> None:
    values = make_values(value_bytes, count=500)
    assert {len(value) for value in values} == {value_bytes}
    assert len(set(values)) == 500


@pytest.mark.parametrize(("name", "batch_bytes"), [("a", 160_000), ("d", 11_000)])
def test_lz4_leaves_about_seventy_percent_of_a_batch(name: str, batch_bytes: int) -> None:
    workload = WORKLOADS[name]
    block = b"".join(make_values(workload.value_bytes, workload.batch_records))
    compressed = len(cramjam.lz4.compress(block))
    assert 0.6 < compressed / len(block) < 0.8
    assert compressed == pytest.approx(batch_bytes, rel=0.15)


def test_records_are_documents_of_the_size_asked_for_and_each_other_one_is_dropped() -> None:
    records = make_records(1000, count=400)
    assert {len(record["value"]) for record in records} == {1000}
    for number, record in enumerate(records):
        region = ("north", "south")[number % 2]
        assert json.loads(record["value"])["region"] == region
        assert record["key"].startswith(region.encode())
        assert ((MARK, b"1") in record["headers"]) is (region == "south")
    for name in ("filter-header", "filter-key", "filter-json"):
        workload = WORKLOADS[name]
        assert workload.arriving == workload.records // 2
        assert workload.batch_records % 2 == 0, "each batch loses a half"


def test_a_quick_run_takes_a_tenth() -> None:
    assert WORKLOADS["c"].quick().records == 400_000


def test_an_unknown_name_is_refused_with_those_that_exist() -> None:
    plain = ("a", "b", "c", "d", "e", "f", "g", "h", "compacted", "transform")
    assert chosen(None, WORKLOADS) == (*plain, "filter-header", "filter-key", "filter-json", "mask-json", "rekey")
    assert chosen("b, a", WORKLOADS) == ("b", "a")
    with pytest.raises(SystemExit, match=r"x is not known; there are a, b, c, .*, mask-json, rekey\."):
        chosen("a,x", WORKLOADS)
