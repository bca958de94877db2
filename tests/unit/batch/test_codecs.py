"""The five codecs: there and back, against another implementation, and against hostile streams."""

import gzip

import kafka.codec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batch.codecs import compress, decompress
from sparkmirror.batch.header import Codec
from sparkmirror.errors import ProtocolError

COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]
MAX_BYTES = 1024 * 1024
contents = st.builds(lambda data, times: data * times, st.binary(max_size=300), st.integers(0, 500))


@pytest.mark.parametrize("codec", list(Codec))
@given(content=contents)
def test_compressed_content_decompresses_to_itself(codec: Codec, content: bytes) -> None:
    assert decompress(codec, compress(codec, content), MAX_BYTES) == content


@pytest.mark.parametrize("codec", list(Codec))
def test_content_of_exactly_the_bound_is_taken_and_a_byte_more_is_not(codec: Codec) -> None:
    stream = memoryview(compress(codec, bytes(MAX_BYTES)))
    assert decompress(codec, stream, MAX_BYTES) == bytes(MAX_BYTES)
    with pytest.raises(ProtocolError, match=f"a {codec.name.lower()} record batch holds more than 1048575 bytes"):
        decompress(codec, stream, MAX_BYTES - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_is_refused_with_its_bound_named(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 * MAX_BYTES))
    with pytest.raises(ProtocolError, match="more than 1000 bytes once decompressed"):
        decompress(codec, bomb, 1000)


@pytest.mark.parametrize("codec", COMPRESSING)
@given(garbage=st.binary(max_size=400))
def test_garbage_is_named_or_by_chance_a_stream(codec: Codec, garbage: bytes) -> None:
    try:
        assert len(decompress(codec, garbage, MAX_BYTES)) <= MAX_BYTES
    except ProtocolError as error:
        assert codec.name.lower() in str(error)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_no_cut_stream_passes_for_a_whole_one(codec: Codec) -> None:
    content = b"0123456789" * 5000
    stream = compress(codec, content)
    # Snappy's framing has no end mark: cut between two blocks it is a shorter, whole stream.
    block_ends = {16, 20 + int.from_bytes(stream[16:20], "big")} if codec is Codec.SNAPPY else set()
    for left in set(range(len(stream))) - block_ends:
        with pytest.raises(ProtocolError, match=f"the {codec.name.lower()} data of a record batch is damaged"):
            decompress(codec, stream[:left], MAX_BYTES)


def test_lz4_frames_have_the_independent_blocks_that_java_demands() -> None:
    descriptor = compress(Codec.LZ4, b"data" * 50_000)[4]
    version, independent_blocks = descriptor >> 6, descriptor >> 5 & 1
    assert (version, independent_blocks) == (1, 1)


def test_snappy_is_read_raw_and_framed_and_appended_as_clients_write_it() -> None:
    content = b"some content " * 5000
    framed = kafka.codec.snappy_encode(content)
    assert decompress(Codec.SNAPPY, framed, MAX_BYTES) == content
    assert decompress(Codec.SNAPPY, framed + framed, MAX_BYTES) == content * 2
    assert decompress(Codec.SNAPPY, pa.compress(content, "snappy", asbytes=True), MAX_BYTES) == content
    assert kafka.codec.snappy_decode(compress(Codec.SNAPPY, content)) == content


def test_gzip_members_one_after_another_are_one_content() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"one ") + gzip.compress(b"two"), MAX_BYTES) == b"one two"
    assert gzip.decompress(compress(Codec.GZIP, b"three")) == b"three"


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_arrow_reads_our_frames_and_we_read_arrow_s(codec: Codec) -> None:
    name, content = codec.name.lower(), b"some content " * 50_000
    assert decompress(codec, pa.compress(content, name, asbytes=True), MAX_BYTES) == content
    assert pa.CompressedInputStream(pa.BufferReader(compress(codec, content)), name).read() == content
