"""Whatever a file holds, reading it gives a configuration or ConfigErrors in words, soon and without a stack trace."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.damage import damage
from tests.unit.config.formats.test_strimzi import CLUSTERS, TARGET

from sparkmirror.config.flow.flows import MirrorConfig, parse_config
from sparkmirror.config.formats.files import read_mirror_file
from sparkmirror.errors import ConfigError

SOON_SECONDS = 60.0
"""Far above what a busy machine needs, far below what multiplies without end would take."""

PROPERTIES = """\
# of a site
clusters = A, B
A.bootstrap.servers = a:1, \\
   a:2
B.bootstrap.servers: b:1
B.security.protocol = SASL_SSL
B.sasl.mechanism = SCRAM-SHA-256
B.sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p";
config.providers = env
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
A->B.enabled = true
A->B.topics = orders\\\\..*, \\u00fcber
A->B.groups.exclude = g[0-9]+
A->B.transforms = mask
A->B.transforms.mask.type = org.apache.kafka.connect.transforms.MaskField$Value
A->B.transforms.mask.fields = name
B.exactly.once.source.support = enabled
rate.limit.topics = audit.*:500kB
tasks.max = 4
"""
STRIMZI = [CLUSTERS.replace("VERSION", "v1beta2"), TARGET]
PIECES = st.sampled_from(
    [
        "\0",
        "\ufeff",
        "\\u12",
        "\\",
        "\r",
        "${env:X}",
        "${",
        "[",
        "(?",
        "=",
        ":",
        "->",
        "->B.",
        "é",
        "\n\n",
        " ",
        ",,",
        "*a",
    ]
)
BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
MERGES = "a0: &a0 {x: y}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 30))


def read(path: Path, data: bytes) -> MirrorConfig | str:
    path.write_bytes(data)
    try:
        return parse_config(read_mirror_file(path))
    except ConfigError as told:
        return str(told)


def quick(test: Callable[..., None]) -> Callable[..., None]:
    return settings(max_examples=100, suppress_health_check=list(HealthCheck))(test)


@quick
@given(st.sampled_from([PROPERTIES, *STRIMZI]), damage())
def test_a_damaged_file_is_understood_or_complained_about(
    tmp_path: Path, text: str, damaged: Callable[[bytes], bytes]
) -> None:
    for name in ("file.properties", "file.yaml"):
        assert read(tmp_path / name, damaged(text.encode()))


@quick
@given(st.lists(st.tuples(st.integers(0, 20), st.floats(0, 1), PIECES), min_size=1, max_size=3))
def test_odd_characters_in_the_middle_of_lines_are_understood_or_complained_about(
    tmp_path: Path, pieces: list[tuple[int, float, str]]
) -> None:
    lines = PROPERTIES.splitlines()
    for row, share, piece in pieces:
        line = lines[row % len(lines)]
        at = int(share * len(line))
        lines[row % len(lines)] = line[:at] + piece + line[at:]
    assert read(tmp_path / "file.properties", "\n".join(lines).encode())


@pytest.mark.parametrize("multiplied", [BOMB, MERGES], ids=["aliases", "merges"])
def test_aliases_that_multiply_without_end_are_read_once(tmp_path: Path, multiplied: str) -> None:
    began = time.monotonic()
    assert isinstance(read(tmp_path / "file.yaml", f"{STRIMZI[0]}\n{multiplied}".encode()), MirrorConfig)
    assert time.monotonic() - began < SOON_SECONDS


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 1000,
        b"\xff\xfe" + PROPERTIES.encode("utf-16-le"),
        b"{" * 5000,
        b"[" * 5000,
        b"a: &a [*a]",
        b"clusters = " + b"A," * 50_000,
        b"clusters = A, B\nA->B.topics = " + b"(" * 5000,
        b"x = " + b"y" * 5_000_000,
    ],
    ids=["empty", "zeros", "utf-16", "braces", "brackets", "itself", "clusters", "parentheses", "long"],
)
def test_what_is_no_configuration_is_refused_in_words(tmp_path: Path, data: bytes) -> None:
    for name in ("file.properties", "file.yaml"):
        began = time.monotonic()
        assert isinstance(read(tmp_path / name, data), str)
        assert time.monotonic() - began < SOON_SECONDS
