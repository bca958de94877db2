"""Files agree on a flow whatever order and form they have, and differ by what counts for it alone."""

from pathlib import Path

from sparkmirror.config.fingerprint import changed_ms, fingerprint
from sparkmirror.model import FlowName

FLOW = FlowName("A", "B")
LINES = ["clusters = A, B", "A.bootstrap.servers = a:1", "B.bootstrap.servers = b:1", "A->B.enabled = true"]


def of(*more: str) -> str:
    return fingerprint("\n".join([*LINES, *more]), FLOW)


def test_order_and_other_flows_do_not_count_and_settings_of_the_flow_do() -> None:
    assert of("tasks.max = 2", "A->B.topics = x") == of("A->B.topics=x  ", "tasks.max=2")
    assert of("B->A.topics = y") == of(), "another flow's"
    assert of("status.listen = localhost:8080") == of(), "each process has a page of its own"
    assert len({of(), of("tasks.max = 2"), of("A->B.topics = x"), of("B.producer.linger.ms = 5")}) == 4


def test_a_secret_is_no_part_of_it() -> None:
    assert of("A.ssl.key.password = one") == of("A.ssl.key.password = two")


def test_a_file_knows_when_it_was_changed_and_what_is_no_file_is_older_than_any(tmp_path: Path) -> None:
    file = tmp_path / "mirror.properties"
    file.write_text("")
    assert changed_ms(str(file)) > 1_600_000_000_000
    assert changed_ms("the option config") == 0
