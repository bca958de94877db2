"""`migrate run --finish` when the source has been switched off."""

from pathlib import Path

import pytest
from tests.flows import SMALLEST
from tests.memory_journal import MemoryJournal

from sparkmirror.cli import migrate
from sparkmirror.cli.main import main
from sparkmirror.errors import ClusterUnreachable
from sparkmirror.operations import cluster_pair
from sparkmirror.operations.steps import Journal, Taken


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryJournal:
    store = MemoryJournal(Journal({"groups": Taken({}, "2 groups stand on B")}))

    def open_admin(*_: object) -> None:
        raise ClusterUnreachable("Cluster A does not answer.")

    monkeypatch.setattr(cluster_pair, "open_admin", open_admin)
    monkeypatch.setattr(migrate, "journal_of", lambda *_: store)
    return store


@pytest.mark.parametrize("ending", ["--finish", "--forget"])
def test_a_migration_ends_without_its_source(
    ending: str, store: MemoryJournal, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(SMALLEST)
    assert main(["migrate", "run", str(file), ending]) == 0
    assert store.journal == (Journal(store.journal.steps, finished=True) if ending == "--finish" else Journal())
    assert ("2 groups stand on B" in capsys.readouterr().err) == (ending == "--finish")
