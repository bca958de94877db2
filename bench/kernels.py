"""`python -m bench.kernels`: what the deep path costs one core, without Kafka or Spark. Seconds are CPU, not clock."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from bench.workloads import make_values
from sparkmirror.batch.columns import decode
from sparkmirror.batch.encoding import encode
from sparkmirror.batch.header import Codec
from sparkmirror.batch.headers import read_headers
from sparkmirror.batch.records import encode_batch
from sparkmirror.batch.rewrite import Limits, rewrite
from sparkmirror.pipeline.fetch.runs import summarize

BATCH_BYTES_MAX = 1 << 20
TIMESTAMP = 1_700_000_000_000
ROUND_SECONDS = 0.2
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Sample:
    """`batches` consecutive batches of `batch_records` values of `value_bytes` each."""

    title: str
    value_bytes: int
    batch_records: int
    codec: Codec
    batches: int = 1

    @property
    def records(self) -> int:
        return self.batches * self.batch_records

    def encode(self) -> memoryview:
        values = make_values(self.value_bytes, self.records)
        firsts = range(0, self.records, self.batch_records)
        return memoryview(b"".join(self._encode_one(values[first:][: self.batch_records], first) for first in firsts))

    def _encode_one(self, values: list[bytes], first_offset: int) -> bytes:
        return encode_batch([(None, value) for value in values], self.codec, first_offset, TIMESTAMP)


SAMPLES = [
    Sample(f"{size} B, {codec.name.lower()}, 160 KB batch", size, 160_000 // size, codec)
    for size in (100, 1000)
    for codec in Codec
]
ONE_RECORD_BATCHES = Sample("100 B, 5,000 batches of one record", 100, 1, Codec.NONE, 5000)
SMALL_LZ4_BATCHES = Sample("1 KB, lz4, 50 batches of 11 KB", 1000, 15, Codec.LZ4, 50)
FEW_LZ4_BATCHES = Sample("1 KB, lz4, 5 batches of 11 KB", 1000, 15, Codec.LZ4, 5)


def main() -> int:
    print("| Work | Sample | records/s | µs a batch | ns a byte decompressed |")
    print("| --- | --- | ---: | ---: | ---: |")
    for sample in SAMPLES:
        _print_rows(sample, _codec_work(sample))
    for sample in (ONE_RECORD_BATCHES, SMALL_LZ4_BATCHES, FEW_LZ4_BATCHES):
        _print_rows(sample, _merging_work(sample))
    return 0


def _codec_work(sample: Sample) -> Iterator[tuple[str, Callable[[], object]]]:
    data = sample.encode()
    columns = decode(data, 0, len(data))
    share = len(data) / len(columns.content)
    yield "decode", lambda: decode(data, 0, len(data))
    yield "encode", lambda: _drain(encode(columns, sample.codec, BATCH_BYTES_MAX, share))
    yield "decode and encode", lambda: _drain(encode(decode(data, 0, len(data)), sample.codec, BATCH_BYTES_MAX, share))


def _merging_work(sample: Sample) -> Iterator[tuple[str, Callable[[], object]]]:
    data = sample.encode()
    yield "summary of the reader", lambda: summarize(data, 0, len(data), 0, None)
    yield "headers", lambda: read_headers(data, 0, len(data))
    yield "merge", lambda: _drain(rewrite(data, 0, Limits(BATCH_BYTES_MAX)))


def _print_rows(sample: Sample, work: Iterable[tuple[str, Callable[[], object]]]) -> None:
    content_bytes = len(decode(data := sample.encode(), 0, len(data)).content)
    for name, run in work:
        seconds = _cpu_seconds(run)
        print(
            f"| {name} | {sample.title} | {sample.records / seconds:,.0f} | {seconds * 1e6 / sample.batches:,.2f} "
            f"| {seconds * 1e9 / content_bytes:.2f} |",
            flush=True,
        )


def _cpu_seconds(run: Callable[[], object]) -> float:
    """Of one call: the best of some rounds, as others may be using the machine."""
    run()
    return min(_round(run) for _ in range(ROUNDS))


def _round(run: Callable[[], object]) -> float:
    began = time.thread_time()
    calls = 0
    while time.thread_time() - began < ROUND_SECONDS:
        run()
        calls += 1
    return (time.thread_time() - began) / calls


def _drain(pieces: Iterable[object]) -> None:
    for _ in pieces:
        pass


if __name__ == "__main__":
    sys.exit(main())
