"""Steps are resumed from every point at which they may be interrupted, and undone from there too."""

from dataclasses import dataclass, field

import pytest

from sparkmirror.errors import SparkMirrorError
from sparkmirror.operations.journal import decode_journal, encode_journal
from sparkmirror.operations.steps import (
    Journal,
    Note,
    Step,
    Taken,
    finish_steps,
    give_up_step,
    keeper,
    take_steps,
    undo_steps,
)

BEFORE = {"a": 1, "b": 2, "c": 3}
AFTER = {"a": 10, "b": 20, "c": 30}


class Killed(Exception):
    pass


@dataclass
class World:
    """Values that steps change, and a count of acts after which the process dies."""

    values: dict[str, int] = field(default_factory=lambda: dict(BEFORE))
    lives: int = 1_000
    stored: str = ""
    journal: Journal = field(default_factory=Journal)

    def act(self) -> None:
        self.lives -= 1
        if self.lives < 0:
            raise Killed

    def claim(self) -> Journal:
        return self.journal

    def load(self) -> Journal:
        return self.journal

    def save(self, journal: Journal) -> None:
        self.act()
        self.journal = decode_journal(encode_journal(journal))


@dataclass
class Multiply:
    """Sets one value to ten times what it was; dies on either side of doing so."""

    name: str
    world: World

    def prepare(self) -> Note:
        before = self.world.values[self.name]
        return {"before": before, "after": before * 10}

    def apply(self, note: Note) -> str:
        self.world.act()
        self.world.values[self.name] = note["after"]
        self.world.act()
        return "done"

    def undo(self, note: Note) -> str:
        self.world.act()
        self.world.values[self.name] = note["before"]
        self.world.act()
        return "undone"


def steps_of(world: World) -> list[Step]:
    return [Multiply(name, world) for name in world.values]


def tell(step: str, sentence: str) -> None:
    assert step and sentence


def killed_after(acts: int) -> World:
    world = World(lives=acts)
    with pytest.raises(Killed):
        take_steps(steps_of(world), world, tell)
    world.lives = 1_000
    return world


@pytest.mark.parametrize("acts", range(12))
def test_killed_anywhere_it_goes_on_to_the_same_end(acts: int) -> None:
    world = killed_after(acts)
    take_steps(steps_of(world), world, tell)
    assert world.values == AFTER


@pytest.mark.parametrize("acts", range(12))
def test_killed_anywhere_it_is_undone_even_if_the_undoing_is_killed_too(acts: int) -> None:
    for later in range(12):
        world = killed_after(acts)
        world.lives = later
        try:
            undo_steps(steps_of(world), world, tell)
        except Killed:
            world.lives = 1_000
            undo_steps(steps_of(world), world, tell)
        assert world.values == BEFORE
        assert world.journal == Journal()


@pytest.mark.parametrize("acts", range(12))
def test_where_the_undoing_was_killed_a_run_holds_nothing_for_done_that_may_be_undone(acts: int) -> None:
    world = World()
    take_steps(steps_of(world), world, tell)
    world.lives = acts
    with pytest.raises(Killed):
        undo_steps(steps_of(world), world, tell)
    world.lives = 1_000
    take_steps(steps_of(world), world, tell)
    assert world.values == AFTER


def test_a_step_that_is_half_undone_and_not_asked_for_stays_so_for_the_next_undo() -> None:
    world = World()
    take_steps(steps_of(world), world, tell)
    world.lives = 2  # noted that it is being undone, and not undone
    with pytest.raises(Killed):
        undo_steps(steps_of(world), world, tell)
    world.lives = 1_000
    take_steps(steps_of(world)[:2], world, tell)
    undo_steps(steps_of(world), world, tell)
    assert world.values == BEFORE


def test_what_is_done_is_not_done_again() -> None:
    world, told = World(), []
    take_steps(steps_of(world), world, tell)
    world.values["a"] = 77
    take_steps(steps_of(world), world, lambda step, sentence: told.append(f"{step}: {sentence}"))
    assert world.values["a"] == 77
    assert told == ["a: done (before)", "b: done (before)", "c: done (before)"]


def test_where_nothing_was_done_there_is_nothing_to_take_back_and_it_is_said() -> None:
    told: list[str] = []
    undo_steps(steps_of(World()), World(), lambda _, sentence: told.append(sentence))
    assert told == ["no step was taken, there is nothing to take back"]


def test_a_finished_procedure_is_neither_resumed_nor_undone() -> None:
    world = World()
    take_steps(steps_of(world), world, tell)
    finish_steps(world)
    for again in (take_steps, undo_steps):
        with pytest.raises(SparkMirrorError, match="finished before"):
            again(steps_of(world), world, tell)


def test_a_procedure_that_is_not_through_cannot_be_finished() -> None:
    with pytest.raises(SparkMirrorError, match="not all steps are done"):
        finish_steps(World())
    with pytest.raises(SparkMirrorError, match="not all steps are done, `a` is begun"):
        finish_steps(killed_after(3))


def test_what_is_half_undone_cannot_be_finished() -> None:
    """Its sentence says that it is done, and a part of it is taken back."""
    world = World()
    take_steps(steps_of(world), world, tell)
    world.lives = 2  # `c` is noted as being undone, and is
    with pytest.raises(Killed):
        undo_steps(steps_of(world), world, tell)
    world.lives = 1_000
    with pytest.raises(SparkMirrorError, match="`c` is being undone, and that is not done"):
        finish_steps(world)
    take_steps(steps_of(world), world, tell)
    finish_steps(world)
    assert world.values == AFTER


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize(
    "theirs", [Journal(), Journal({"a": Taken({"before": 1}, undoing=True)}), Journal({"a": Taken({})}, finished=True)]
)
def test_who_is_at_it_while_somebody_else_ends_it_learns_of_that(theirs: Journal, keeps: bool) -> None:
    """It is forgotten, undone or finished from another machine, while a step waits."""
    world = World()

    class Waits(Multiply):
        def apply(self, note: Note) -> str:
            world.journal = theirs
            if keeps:
                keeper("a", world)(note)
            return "done"

    with pytest.raises(SparkMirrorError, match="While the step `a` was applied, somebody else has undone, finished or"):
        take_steps([Waits("a", world)], world, tell)
    assert world.journal == theirs


def test_a_step_whose_cluster_is_gone_is_named_when_it_cannot_be_taken_back() -> None:
    world = World()
    take_steps(steps_of(world), world, tell)
    with pytest.raises(SparkMirrorError, match="`c` cannot be taken back"):
        undo_steps(steps_of(world)[:1], world, tell)


def test_a_step_that_only_waits_may_be_given_up_on_the_way() -> None:
    world = killed_after(4)  # `b` is noted, and not done
    give_up_step("b", world, tell)
    give_up_step("a", world, tell)
    take_steps([step for step in steps_of(world) if step.name != "b"], world, tell)
    finish_steps(world)
    assert world.values == {**AFTER, "b": BEFORE["b"]}
