"""What compressed batches say of their content's size, against what comes out."""

import gzip
import json
import random

import cramjam
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.batch.conftest import JAVA_BATCHES

from sparkmirror.batch.codecs import compress, decompress
from sparkmirror.batch.content_size import ContentSize, read_claim
from sparkmirror.batch.header import HEADER_BYTES, MAGIC, Codec, parse_header
from sparkmirror.errors import ContentTooLarge, ProtocolError

MEGABYTE = 1 << 20
TELLING = [Codec.NONE, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
contents = st.builds(lambda data, times: data * times, st.binary(max_size=300), st.integers(0, 3000))


def streamed(codec: str, content: bytes) -> memoryview:
    """As a stream without its length, which writers make that do not know it beforehand."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as out:
        for at in range(0, len(content), 100_000):
            out.write(content[at : at + 100_000])
    return memoryview(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("codec", TELLING)
@given(content=contents)
def test_no_content_is_larger_than_its_claim(codec: Codec, content: bytes) -> None:
    claim = read_claim(codec, memoryview(compress(codec, content)))
    if claim is None:
        assert not content
        return
    assert claim.content_bytes == len(content) if claim.is_stated else claim.content_bytes >= len(content)


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
@given(content=contents)
def test_a_stream_that_does_not_tell_its_size_is_bounded_by_its_blocks(codec: Codec, content: bytes) -> None:
    data = streamed(codec.name.lower(), content)
    claim = read_claim(codec, data)
    assert claim is not None
    assert len(content) <= claim.content_bytes
    assert decompress(codec, data, 1 << 30) == content


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.ZSTD])
def test_a_bomb_tells_its_size(codec: Codec) -> None:
    assert read_claim(codec, memoryview(compress(codec, bytes(50 * MEGABYTE)))) == ContentSize(
        50 * MEGABYTE, is_stated=True
    )


def test_what_java_writes_is_understood() -> None:
    batches = {name: bytes.fromhex(data) for name, data in json.loads(JAVA_BATCHES.read_text()).items()}
    for batch in batches.values():
        header = parse_header(batch, 0)
        if header.magic == MAGIC and header.codec in TELLING and len(batch) > HEADER_BYTES:
            data = memoryview(batch)[HEADER_BYTES:]
            claim = read_claim(header.codec, data)
            assert claim is not None and claim.content_bytes >= len(decompress(header.codec, data, MEGABYTE))


def test_frames_one_behind_the_other_are_added_up_and_skippable_ones_hold_nothing() -> None:
    skippable = (0x184D2A53).to_bytes(4, "little") + (5).to_bytes(4, "little") + b"aside"
    for codec in (Codec.LZ4, Codec.ZSTD):
        parts = [compress(codec, b"a" * 500), skippable, compress(codec, b"b" * 500)]
        claim = read_claim(codec, memoryview(b"".join(parts)))
        single = read_claim(codec, memoryview(parts[0]))
        assert claim is not None and single is not None
        assert claim.content_bytes == 2 * single.content_bytes


def test_gzip_says_nothing_that_could_be_believed() -> None:
    assert read_claim(Codec.GZIP, memoryview(gzip.compress(bytes(1000)))) is None


@pytest.mark.parametrize("codec", list(Codec))
@given(noise=st.binary(max_size=300))
def test_noise_claims_something_or_nothing_and_never_ends_the_reader(codec: Codec, noise: bytes) -> None:
    read_claim(codec, memoryview(noise))


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@given(places=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 255)), min_size=1, max_size=4))
def test_a_false_claim_does_not_raise_the_bound(codec: Codec, places: list[tuple[int, int]]) -> None:
    data = bytearray(compress(codec, random.Random(1).randbytes(3000)))
    for at, mask in places:
        data[at % len(data)] ^= mask
    try:
        assert len(decompress(codec, bytes(data), 4000)) <= 4000
    except ProtocolError as problem:
        assert codec.name.lower() in str(problem)


def test_a_frame_that_holds_more_than_it_tells_is_damaged() -> None:
    data = bytearray(bytes(cramjam.zstd.compress(bytes(100_000))))
    descriptor = data[4]
    assert descriptor >> 6 == 2, "its size stands in four bytes"
    data[6 - bool(descriptor & 0x20) : 10 - bool(descriptor & 0x20)] = (70_000).to_bytes(4, "little")
    with pytest.raises(ProtocolError, match="zstd data of a record batch is damaged"):
        decompress(Codec.ZSTD, bytes(data), MEGABYTE)


def test_what_tells_its_size_is_refused_before_a_byte_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = compress(Codec.ZSTD, bytes(50 * MEGABYTE))
    monkeypatch.setattr(cramjam.zstd, "decompress_into", None)
    with pytest.raises(ContentTooLarge, match="more than 1048576 bytes once decompressed; it is not unpacked"):
        decompress(Codec.ZSTD, bomb, MEGABYTE)
