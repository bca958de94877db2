"""Moves by load: they relieve whoever bears most, come to an end, and are not made for little."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.flows import flow_of

from sparkmirror.control.assignment import Assignment
from sparkmirror.model import TopicPartition
from sparkmirror.planning.balance import (
    GAIN_MIN,
    GAIN_MIN_BEHIND,
    MOVES_MAX,
    REST_LOOKS,
    Balance,
    Load,
    after_moves,
    plan_relief,
    weigh,
)
from sparkmirror.planning.balance import Loads as LoadReader
from sparkmirror.planning.plan import Move
from sparkmirror.telemetry.brakes import OWN_LIMITS
from sparkmirror.telemetry.records import BEAT_SECONDS, TaskRecord

MEGABYTE = 1e6
Loads = dict[TopicPartition, Load]

rates = st.lists(st.lists(st.floats(0, 1e8), max_size=12), min_size=1, max_size=5)


def laid_out(rates_by_task: list[list[float]], *, behind: bool = False) -> tuple[Assignment, Loads]:
    assignment, loads = {}, Loads()
    for task, carried in enumerate(rates_by_task):
        members = [TopicPartition(f"t{task}", number) for number in range(len(carried))]
        assignment[task] = frozenset(members)
        loads |= {where: Load(rate, behind) for where, rate in zip(members, carried, strict=True)}
    return assignment, loads


def bearing(assignment: Assignment, weights: dict[TopicPartition, float]) -> list[float]:
    return [sum(weights[where] for where in members) for _, members in sorted(assignment.items())]


def idle(count: int) -> list[float]:
    return [0.0] * count


@given(rates)
def test_moves_are_of_what_is_there_each_partition_once(carried: list[list[float]]) -> None:
    assignment, loads = laid_out(carried)
    moves = plan_relief(assignment, loads)
    assert len({move.partition for move in moves}) == len(moves) <= MOVES_MAX
    assert all(move.partition in assignment[move.from_task] and move.from_task != move.to_task for move in moves)
    after = after_moves(assignment, moves)
    assert sorted(tp for members in after.values() for tp in members) == sorted(loads)


@given(rates)
def test_the_heaviest_load_never_grows_and_repeated_looks_come_to_an_end(carried: list[list[float]]) -> None:
    assignment, loads = laid_out(carried)
    weights = weigh(assignment, loads)
    for _ in range(30):
        moves = plan_relief(assignment, loads)
        if not moves:
            break
        before = bearing(assignment, weights)
        assignment = after_moves(assignment, moves)
        after = bearing(assignment, weights)
        assert max(after) <= max(before) * (1 + 1e-9)
        assert sum(load * load for load in after) < sum(load * load for load in before), "it gets more even each time"
    assert not plan_relief(assignment, loads)


@given(rates, st.booleans())
def test_nothing_moves_where_no_task_would_be_relieved_of_enough(carried: list[list[float]], behind: bool) -> None:
    assignment, loads = laid_out(carried, behind=behind)
    weights = weigh(assignment, loads)
    moves = plan_relief(assignment, loads)
    before = bearing(assignment, weights)
    for giver in {move.from_task for move in moves}:
        given_away = sum(weights[move.partition] for move in moves if move.from_task == giver)
        gain = GAIN_MIN_BEHIND if behind else GAIN_MIN
        assert given_away >= gain * before[giver] * (1 - 1e-9)


@given(st.integers(2, 5), st.lists(st.floats(0.1, 1.0), min_size=1, max_size=20), st.data())
def test_a_hot_partition_ends_alone_on_its_task(tasks: int, shares: list[float], data: st.DataObject) -> None:
    """The others carry a third of what it does at most, but enough to be in its way."""
    hot, scale = 90 * MEGABYTE, 30 * MEGABYTE / sum(shares)
    loads = {TopicPartition("other", number): Load(share * scale) for number, share in enumerate(shares)}
    loads[TopicPartition("hot", 0)] = Load(hot, is_behind=True)
    owner = {where: data.draw(st.integers(0, tasks - 1)) for where in loads}
    owner |= {TopicPartition("other", number): owner[TopicPartition("hot", 0)] for number in range(len(shares))}
    assignment = {task: frozenset(tp for tp, its in owner.items() if its == task) for task in range(tasks)}
    after = after_moves(assignment, plan_relief(assignment, loads))
    assert frozenset({TopicPartition("hot", 0)}) in after.values()


def test_the_hot_one_stays_and_its_neighbours_go() -> None:
    assignment, loads = laid_out([[80 * MEGABYTE, 9 * MEGABYTE, 8 * MEGABYTE], [MEGABYTE]])
    loads[TopicPartition("t0", 0)] = Load(80 * MEGABYTE, is_behind=True)
    assert {move.partition for move in plan_relief(assignment, loads)} == {
        TopicPartition("t0", 1),
        TopicPartition("t0", 2),
    }


def test_two_that_are_behind_on_one_task_part() -> None:
    """What they get now is half of what each could: one goes, though the other task bears nearly as much."""
    assignment, loads = laid_out([[50 * MEGABYTE, 50 * MEGABYTE], [70 * MEGABYTE]])
    loads |= {where: Load(50 * MEGABYTE, is_behind=True) for where in assignment[0]}
    assert plan_relief(assignment, loads) == (Move(TopicPartition("t0", 0), 0, 1),)


def test_idle_partitions_go_by_their_number() -> None:
    assignment, loads = laid_out([idle(40), idle(2)])
    assert sorted(map(len, after_moves(assignment, plan_relief(assignment, loads)).values())) == [21, 21]
    assert not plan_relief(*laid_out([idle(5), idle(4)]))
    assert len(plan_relief(*laid_out([idle(5000), idle(2)]))) == MOVES_MAX


def test_what_rests_does_not_move() -> None:
    assignment, loads = laid_out([[MEGABYTE, MEGABYTE], []])
    assert plan_relief(assignment, loads, resting=assignment[0]) == ()
    (move,) = plan_relief(assignment, loads, resting={TopicPartition("t0", 0)})
    assert move.partition == TopicPartition("t0", 1)


def test_there_is_nothing_to_move_for_one_task_or_none() -> None:
    assert plan_relief(*laid_out([[MEGABYTE, 5 * MEGABYTE]])) == ()
    assert plan_relief({}, {}) == ()


def test_a_passing_peak_moves_nothing() -> None:
    assignment, peak = laid_out([[9 * MEGABYTE, 9 * MEGABYTE], [MEGABYTE]])
    calm = {where: Load(MEGABYTE if where.topic == "t1" else MEGABYTE / 2) for where in peak}
    balance = Balance()
    for loads in (peak, calm) * 5:
        assert balance.look(assignment, loads) == ()
    assert balance.look(assignment, peak) == ()
    assert len(balance.look(assignment, peak)) == 1


class Machine:
    """Tasks of which each carries `capacity` at most, shared by its partitions as they want it."""

    def __init__(self, capacity: float, wanted: dict[TopicPartition, float], assignment: Assignment) -> None:
        self.capacity, self.wanted, self.assignment = capacity, wanted, assignment

    def loads(self) -> Loads:
        found = Loads()
        for members in self.assignment.values():
            left, waiting = self.capacity, sorted(members, key=lambda tp: (self.wanted[tp], tp))
            for place, where in enumerate(waiting):
                carried = min(self.wanted[where], left / (len(waiting) - place))
                left -= carried
                found[where] = Load(carried, is_behind=carried < self.wanted[where] * 0.999)
        return found


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.builds(TopicPartition, st.just("t"), st.integers(0, 40)), st.floats(0, 3e8), min_size=1, max_size=15
    ),
    st.integers(1, 4),
    st.data(),
)
def test_steady_demand_comes_to_rest(wanted: dict[TopicPartition, float], tasks: int, data: st.DataObject) -> None:
    """Even where each place is wrong, because what a task carries changes with what it is given: rests get longer."""
    owner = {where: data.draw(st.integers(0, tasks - 1)) for where in wanted}
    assignment = {task: frozenset(tp for tp, its in owner.items() if its == task) for task in range(tasks)}
    machine, balance = Machine(100 * MEGABYTE, wanted, assignment), Balance()
    moved = dict.fromkeys(wanted, 0)
    for _ in range(7 * REST_LOOKS):
        moves = balance.look(machine.assignment, machine.loads())
        machine.assignment = after_moves(machine.assignment, moves)
        for move in moves:
            moved[move.partition] += 1
    assert max(moved.values()) <= 3


def test_a_hair_too_much_for_any_task_moves_ever_more_rarely() -> None:
    """40 and 60 are just more than a task carries: whoever has both is behind, and gives the smaller one away."""
    partitions = [TopicPartition("t", number) for number in range(3)]
    wanted = dict(zip(partitions, (40.061279 * MEGABYTE, 59.99872 * MEGABYTE, 59.99872 * MEGABYTE), strict=True))
    machine, balance = Machine(100 * MEGABYTE, wanted, {0: frozenset(partitions), 1: frozenset()}), Balance()
    looks = []
    for look in range(1000):
        moves = balance.look(machine.assignment, machine.loads())
        machine.assignment = after_moves(machine.assignment, moves)
        looks += [look] if moves else []
    assert len(looks) < 12


def test_what_a_task_uses_of_the_cores_lies_between_two_beats_of_one_attempt() -> None:
    loads = LoadReader(flow_of("tasks.max = 2"), "run")
    tell = [
        TaskRecord("run", 0, epoch=1, beat=7, cpu_seconds=1.0),
        TaskRecord("run", 0, epoch=1, beat=7, cpu_seconds=1.0),  # its lag has changed
        TaskRecord("run", 0, epoch=1, beat=9, cpu_seconds=1.0 + 2 * BEAT_SECONDS * 0.25, held_by=(OWN_LIMITS,)),
        TaskRecord("run", 1, epoch=1, beat=9, cpu_seconds=5.0),
    ]
    for record in tell:
        loads._take_task(record)
    assert (loads.cores, loads.held_by) == ({0: 0.25}, {0: (OWN_LIMITS,)})
    loads._take_task(TaskRecord("run", 0, epoch=2, beat=10, cpu_seconds=0.1))
    assert not loads.cores and not loads.held_by, "another attempt counts from its own beginning"
