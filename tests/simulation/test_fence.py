"""A fence while one broker of the source knows of a changed ACL and another does not yet, on simulated brokers."""

from collections.abc import Callable

import pytest
from tests.simulation.acls import CREATE_ACLS, DELETE_ACLS
from tests.simulation.cluster import Cluster
from tests.simulation.environment import simulated
from tests.simulation.history import Scene
from tests.simulation.scheduler import Process, World
from tests.simulation.scripts import plan

from sparkmirror.kafka.acls import _create_request, _delete_request
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin
from sparkmirror.operations.failover_run import Fence, Unfence
from sparkmirror.operations.steps import Note
from sparkmirror.sync.acls import fence_of

SEEDS = range(8)
"""The seed draws which broker is asked."""
LEARN_SECONDS, LATE_SECONDS = 1.1, 2.0
"""The first broker knows after the former, the second no earlier than after the latter."""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fence_that_one_broker_knows_is_not_taken_for_one_that_all_know(seed: int) -> None:
    scene = Scene(plan(seed), World(seed))
    denied: list[bool] = []

    def fence(source: Admin) -> None:
        _create_elsewhere(scene.source)
        step = Fence(scene.flow, source, _keep_nothing)
        step.apply(step.prepare())
        denied.extend(scene.source.acls.denies_writes(node, "orders") for node in scene.source.nodes)

    _play(scene, fence)
    assert denied == [True, True]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fence_that_is_just_removed_is_not_taken_for_one_that_stands(seed: int) -> None:
    scene = Scene(plan(seed), World(seed))

    def fence(source: Admin) -> None:
        _create_elsewhere(scene.source)
        scene.world.sleep(LEARN_SECONDS + LATE_SECONDS)
        _hold_back(scene.source)
        scene.source.acls.handle(DELETE_ACLS, 0, _delete_request([fence_of("orders")]))
        scene.world.sleep(LEARN_SECONDS)
        step = Fence(scene.flow, source, _keep_nothing)
        step.apply(step.prepare())

    _play(scene, fence)
    assert [scene.source.acls.denies_writes(node, "orders") for node in scene.source.nodes] == [True, True]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fence_that_one_broker_does_not_know_yet_is_lifted_too(seed: int) -> None:
    scene = Scene(plan(seed), World(seed))

    def lift(source: Admin) -> None:
        _create_elsewhere(scene.source)
        step = Unfence(scene.flow, source)
        step.apply(step.prepare())

    _play(scene, lift)
    assert not any(scene.source.acls.denies_writes(node, "orders") for node in scene.source.nodes)


def _keep_nothing(note: Note) -> None:
    raise AssertionError(f"no topic was made since the step began: {note}")


def _create_elsewhere(source: Cluster) -> None:
    """Another program fences the topic, and the second broker learns of it late."""
    _hold_back(source)
    source.acls.handle(CREATE_ACLS, 0, _create_request([fence_of("orders")]))
    source.world.sleep(LEARN_SECONDS)


def _hold_back(source: Cluster) -> None:
    source.acls._learns_at[1] = source.world.now + LATE_SECONDS


def _play(scene: Scene, act: Callable[[Admin], None]) -> None:
    """In a process, and on until every broker knows of all."""
    world = scene.world

    def run() -> None:
        with open_admin(scene.flow.source, "test") as source:
            act(source)

    with simulated(world, scene.net):
        Process(world, "operator").spawn(run, "operator")
        world.run(world.now + 30.0)
    assert not world.bugs
