"""The functions of a schema of the file, as Spark's workers call them."""

import json

import pyarrow as pa
from tests.schema_registry import SchemaRegistry

from sparkmirror.config.flow.schema_registries import AvroSchema, Registry, SchemaRegistries
from sparkmirror.config.flow.source_line import Source
from sparkmirror.spark.avro_functions import _look_up, _writer

LINE = Source("transforms.avro.cart.subject", 1, "mm2")
MONEY = {"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "long"}]}
CART = {"type": "record", "name": "Cart", "fields": [{"name": "sum", "type": "Money"}]}


def test_batches_are_written_without_asking_for_the_schema_again() -> None:
    """Padding, too, is a batch: what a registry that is away would stop."""
    with SchemaRegistry() as source, SchemaRegistry(first=100) as target:
        source.register("money", {"schema": json.dumps(MONEY)})
        references = [{"name": "Money", "subject": "money", "version": 1}]
        source.register("carts-value", {"schema": json.dumps(CART), "references": references})
        registries = SchemaRegistries(Registry(source.url), Registry(target.url), LINE)
        to_avro = _writer(registries, "A->B", *_look_up(registries, AvroSchema("cart", "carts-value", "latest", LINE)))
        source.asked.clear()
        empty = pa.array([None, None], pa.struct([("sum", pa.struct([("cents", pa.int64())]))]))
        assert to_avro(empty, pa.array(["s", "s"])).to_pylist() == [None, None] and source.asked == []
        data = pa.array([{"sum": {"cents": 7}}], empty.type)
        for _ in range(2):
            assert to_avro(data, pa.array(["A.carts-value"])).to_pylist() == [b"\0\0\0\0\x65\x0e"]
        odd = pa.array([b"\xff", b"", None], pa.binary())
        subjects = pa.Array.from_buffers(pa.string(), len(odd), odd.buffers())
        reasons = [made[18:] for made in to_avro(pa.concat_arrays([data] * 3), subjects).to_pylist()]
        assert reasons == [rb"its subject is no text: b'\xff'", b"its subject is empty", b"its subject is null"]
        assert source.asked == ["GET /subjects/money/versions/1"], "to register it with the target's"
