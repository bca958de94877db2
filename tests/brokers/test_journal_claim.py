"""Two operators take steps of one procedure at once, or one twice: the earlier command ends, and stores no more."""

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from tests.brokers.offset_story import Story, told

from sparkmirror.errors import AuthorizationFailed, SparkMirrorError
from sparkmirror.operations import journal as journals
from sparkmirror.operations.journal import TopicJournal
from sparkmirror.operations.steps import (
    Journal,
    Note,
    Step,
    Taken,
    finish_steps,
    keeper,
    take_steps,
    undo_steps,
)
from sparkmirror.testing.kafka import KafkaCluster

TAKEN_OVER = "another `failover run` has taken the steps over"


@pytest.fixture
def story(source_cluster: KafkaCluster, target_cluster: KafkaCluster, unique: Callable[[str], str]) -> Iterator[Story]:
    source, target = ({"bootstrap.servers": one.bootstrap_servers} for one in (source_cluster, target_cluster))
    with told(source, target, unique("east")) as found:
        yield found


class Acts:
    """A step that does what it is given, and notes what it found."""

    def __init__(self, name: str, act: Callable[[], object] = str, found: int = 1) -> None:
        self.name = name
        self._act = act
        self._found = found

    def prepare(self) -> Note:
        return {"found": self._found}

    def apply(self, note: Note) -> str:
        self._act()
        return f"done with {note['found']}"

    def undo(self, note: Note) -> str:
        return f"undone with {note['found']}"


def silent(step: str, sentence: str) -> None:
    """Nobody reads it."""


def journal_of(story: Story) -> TopicJournal:
    return TopicJournal(story.flow, "failover")


Second = Callable[[Story], None]


def runs(story: Story) -> None:
    take_steps([Acts("drain"), Acts("groups", found=2)], journal_of(story), silent)


def undoes(story: Story) -> None:
    undo_steps([Acts("drain"), Acts("groups")], journal_of(story), silent)


def runs_and_finishes(story: Story) -> None:
    runs(story)
    finish_steps(journal_of(story))


def forgets(story: Story) -> None:
    journal_of(story).forget()


def begins(story: Story) -> None:
    """It is killed before its first step."""
    journal_of(story).claim()


@pytest.mark.parametrize("second", [runs, undoes, runs_and_finishes, forgets, begins])
def test_a_run_that_is_at_a_step_ends_when_a_second_command_begins(story: Story, second: Second) -> None:
    steps: list[Step] = [Acts("drain", lambda: second(story)), Acts("groups", pytest.fail)]
    with pytest.raises(SparkMirrorError, match=TAKEN_OVER) as ended:
        take_steps(steps, journal_of(story), silent)
    assert "when nobody else is at it, run it again, or --undo it" in str(ended.value)
    left = journal_of(story).load()
    done = {name: taken.sentence for name, taken in left.steps.items()}
    expected = {
        "runs": {"drain": "done with 1", "groups": "done with 2"},
        "runs_and_finishes": {"drain": "done with 1", "groups": "done with 2"},
        "begins": {"drain": ""},
    }
    assert (done, left.finished) == (expected.get(second.__name__, {}), second is runs_and_finishes)


def test_who_slept_between_its_look_and_its_note_stores_nothing(story: Story) -> None:
    """Its look is older than what the second command has done since."""
    first, second = journal_of(story), journal_of(story)
    slept = first.claim().with_step("drain", Taken({"found": 1}))
    take_steps([Acts("drain", found=7)], second, silent)
    for _ in range(2):
        with pytest.raises(SparkMirrorError, match=rf"{TAKEN_OVER} \(by .+ on .+, .+ ago\)"):
            first.save(slept)
    assert second.load().steps == {"drain": Taken({"found": 7}, "done with 7")}
    second.save(Journal({}))
    assert journal_of(story).load() == Journal({})


def test_a_note_that_a_step_keeps_is_stored_by_the_same_claim(story: Story) -> None:
    journal = journal_of(story)
    take_steps([Acts("fence", lambda: keeper("fence", journal)({"found": 9}))], journal, silent)
    assert journal_of(story).load().steps["fence"].note == {"found": 9}
    with suppress(SparkMirrorError):
        finish_steps(journal)
    assert journal_of(story).load().finished, "one command claims once"


def test_without_the_transactional_id_a_claim_is_found_out_by_its_record(
    story: Story, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AuthorizationFailed("TRANSACTIONAL_ID_AUTHORIZATION_FAILED")

    monkeypatch.setattr(journals, "init_producer_ids", refuse)
    first, second = journal_of(story), journal_of(story)
    slept = first.claim().with_step("drain", Taken({"found": 1}))
    assert "an earlier `failover run` that still stands at a step is not fenced" in caplog.text
    take_steps([Acts("drain", found=7)], second, silent)
    with pytest.raises(SparkMirrorError, match=TAKEN_OVER):
        first.save(slept)
    assert journal_of(story).load().steps == {"drain": Taken({"found": 7}, "done with 7")}
    second.forget()
    assert journal_of(story).load() == Journal()


def test_procedures_and_flows_have_journals_of_their_own(story: Story) -> None:
    first, other = journal_of(story), TopicJournal(story.flow, "failback")
    first.claim()
    other.claim()
    other.save(Journal({"fence": Taken({})}))
    first.save(Journal({"drain": Taken({})}))
    assert (list(first.load().steps), list(other.load().steps)) == (["drain"], ["fence"])
