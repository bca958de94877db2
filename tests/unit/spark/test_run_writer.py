"""The writing end as Spark knows it: light to learn of, and whole where it is called."""

import pickle
import subprocess
import sys

import pytest
from tests.flows import SMALLEST

from sparkmirror.pipeline.produce.receipts import Receipt
from sparkmirror.pipeline.relay.schema import close
from sparkmirror.spark.kafka_runs import KafkaRuns

OPTIONS = {"config": SMALLEST, "flow": "A->B", "run": "r"}


def test_a_pickled_copy_takes_rows_that_carry_nothing_and_gives_an_empty_receipt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sparkmirror.logs.handlers.log_to_driver", lambda _: None)
    writer = pickle.loads(pickle.dumps(KafkaRuns(OPTIONS).streamWriter(None, overwrite=False)))
    assert writer.write(iter([close(), close()])) == Receipt(-1)


def test_making_it_loads_neither_a_kafka_client_nor_the_sender() -> None:
    program = (
        "import sys; from sparkmirror.spark.kafka_runs import KafkaRuns; "
        f"KafkaRuns({OPTIONS!r}).streamWriter(None, overwrite=False); "
        "print([name for name in ('kafka', 'sparkmirror.pipeline.produce.sender') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "[]"
