"""A mirror that is rewound and made to skip by `sparkmirror positions`, at least once and exactly once."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.oracle import Client, read_topic
from tests.scenarios.data import make_topics, numbered, write
from tests.scenarios.mirror import COMMAND, MirrorOnce, StartMirror, flow_file

LIVE_SECONDS_MAX = 90.0


@pytest.mark.long
@pytest.mark.parametrize("guarantee", ["at least once", "exactly once"])
def test_a_flow_continues_at_the_offsets_that_it_is_given(
    source: Client,
    target: Client,
    unique: Callable[[str], str],
    start_mirror: StartMirror,
    mirror_once: MirrorOnce,
    tmp_path: Path,
    guarantee: str,
) -> None:
    alias, topic = unique("east"), unique("orders")
    lines = ["backup.exactly.once.source.support = enabled"] if guarantee == "exactly once" else []
    text = flow_file(source, target, alias=alias, topics=topic, lines=lines)
    file = tmp_path / "mm2.properties"
    file.write_text(text)
    make_topics(source, {topic: 1})
    write(source, topic, numbered(0, 100))

    def mirrored() -> list[int]:
        return [int(record.value or b"") for log in read_topic(target, f"{alias}.{topic}").values() for record in log]

    def positions(*words: str, status: int = 0) -> str:
        ended = start_mirror("", program=(str(COMMAND), "positions", words[0], str(file), *words[1:])).finish()
        assert ended.status == status, ended.errors
        return ended.output + ended.errors

    mirror_once(text)
    told = positions("reset", "--shift-by", "-30", "--topic", topic, "--execute", "--reason", "lost there")
    assert "30 are mirrored again" in told
    write(source, topic, numbered(100, 120))
    mirror_once(text)
    wanted = [*range(100), *range(70, 120)]
    assert mirrored() == wanted

    write(source, topic, numbered(120, 140))
    positions("set", "--offset", f"{topic}:0:130", "--execute")
    mirror = start_mirror(text)
    mirror.wait_until(lambda: len(mirrored()) == 160, "goes on behind the gap", LIVE_SECONDS_MAX)
    assert "runs this flow" in positions("reset", "--to-latest", "--topic", topic, "--execute", status=1)
    mirror.stop()
    assert mirrored() == [*wanted, *range(130, 140)]
