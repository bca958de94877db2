"""`failover run --unplanned`: what is left of the old primary decides nothing."""

from pathlib import Path
from typing import Any

import pytest
from tests.flows import SMALLEST
from tests.memory_journal import MemoryJournal

from sparkmirror.cli import failover
from sparkmirror.cli.main import main
from sparkmirror.errors import AuthenticationFailed
from sparkmirror.model import Cluster, FlowName
from sparkmirror.operations import cluster_pair, failover_snapshot
from sparkmirror.operations.cluster_pair import ClusterPair
from sparkmirror.operations.failover import Readiness


class Target:
    """Groups have nothing to move."""

    alias = "B"

    def __enter__(self) -> "Target":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def api_versions(self) -> Any:
        return {9: (0, 9), 10: (0, 6)}

    def list_topics(self, _: object) -> dict[str, Any]:
        return {}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The source takes no log-in: with the site its directory of users is gone."""
    path = tmp_path / "mm2.properties"
    path.write_text(SMALLEST)

    def open_admin(cluster: Cluster, _: str) -> Target:
        if cluster.alias == "A":
            raise AuthenticationFailed("Cluster A refuses the credentials.")
        return Target()

    def look(_: object, pair: ClusterPair, **__: object) -> Readiness:
        assert pair.source is None
        return Readiness(FlowName("A", "B"), False, (), ())

    store = MemoryJournal()
    monkeypatch.setattr(cluster_pair, "open_admin", open_admin)
    monkeypatch.setattr(failover_snapshot, "look", look)
    monkeypatch.setattr(failover, "journal_of", lambda *_: store)
    return str(path)


def test_a_source_that_is_given_up_is_not_asked(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["failover", "run", file, "--unplanned"]) == 0
    said = capsys.readouterr()
    assert "cluster A does not answer, or was not asked" in said.out
    assert "groups: " in said.err


@pytest.mark.parametrize("words", [(), ("--unplanned", "--undo")])
def test_of_a_planned_one_and_of_an_undoing_it_is_a_part(
    words: tuple[str, ...], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["failover", "run", file, *words]) == 1
    assert "Cluster A refuses the credentials" in capsys.readouterr().err
