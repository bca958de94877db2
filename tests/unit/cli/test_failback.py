"""`failback accept --undo` says what it would take back, and takes back no more than that."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.flows import SMALLEST
from tests.unit.operations.test_kept_return import ORDERS, Published
from tests.unit.operations.test_parted_logs import IDENTITY, SHORT

from sparkmirror.cli import failback
from sparkmirror.cli.main import main
from sparkmirror.operations import parted_logs


@pytest.fixture
def accept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command, for logs that part."""
    path = tmp_path / "mm2.properties"
    path.write_text(f"{SMALLEST}preserve.offsets.enabled = true\n{IDENTITY}\n")
    admin = SimpleNamespace(list_known_topics=lambda names: dict.fromkeys(names, SimpleNamespace(partitions=1)))
    monkeypatch.setattr(failback, "_both", lambda _: nullcontext((admin, admin)))
    monkeypatch.setattr(parted_logs, "mirrored_partitions", lambda *_: [ORDERS])
    monkeypatch.setattr(parted_logs, "look_at_kept", lambda *_: [SHORT])
    return ["failback", "accept", str(path), "--topic", "orders"]


def test_an_acceptance_is_shown_before_it_is_taken_back(
    accept: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = Published(monkeypatch)
    assert main([*accept, "--undo"]) == 0
    assert capsys.readouterr().out == "no records are to be appended: nothing can be taken back\n"
    assert main([*accept, "--execute"]) == 0
    capsys.readouterr()
    assert main([*accept, "--undo"]) == 0
    said = capsys.readouterr()
    assert said.out == "orders-0 would be refused again\n" and "nothing was changed" in said.err
    assert ledger.view.accepted
    assert main([*accept, "--undo", "--execute"]) == 0
    assert capsys.readouterr().out == "orders-0 is refused again\n"
    assert not ledger.view.accepted
