"""Histories of brokers that leave markers out: a partition of the target has no leader when its transaction ends.

Played by `--left-out`, and by `--left-in-ledger`, where the ledger's partitions lack markers too: nothing may be lost
then, and no flow stand still, but records may come twice. While committed records lie open nobody sees them, so that
the judge looks at the end only; all partitions are written to until then, and once more when all is well, which ends
what lies open. What docs/exactly-once.md says is not covered may fail here.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.simulation.history import Scene
    from tests.simulation.scripts import Script

_ENDS: Final = "end broker"
_EVENTS: Final = ("EndTxn", "EndTxn", "InitProducerId")
"""By which a transaction ends: its producer decides, or its next holder aborts it."""


def end_broker(scene: "Scene", random: Random) -> str:
    """A broker of the target ends as a transaction does, and what it leads has no leader until it is back."""
    cluster = scene.target
    number, event = random.choice(list(cluster.nodes)), random.choice(_EVENTS)

    def end() -> None:
        if not scene.is_healed and all(node.is_up for node in cluster.nodes.values()):
            scene.net.down(cluster, number)
            cluster.down(number)
            scene.world.after(0.5 + 2.0 * random.random(), come_back)

    def come_back() -> None:
        cluster.nodes[number].is_up = True
        cluster.elect()

    cluster.when(event, end)
    return f"broker {cluster.alias}-{number} ends with the next {event}, and nobody leads its partitions"


LEFT_OUT_FAULTS: Final = {_ENDS: (1, end_broker)}


def left_out(scripts: "Iterable[Script]", *, in_ledger: bool = False) -> "Iterator[Script]":
    """Those with exactly-once, in which every second fault is a broker that ends with a transaction; the ledger lacks
    markers too where it may."""
    for script in scripts:
        if script.exactly_once and script.kept is None:
            faults = tuple(one if at % 2 else one._replace(name=_ENDS) for at, one in enumerate(script.faults))
            changed = replace(script, faults=faults, writes_until=0.0, quiet_focus=False)
            yield replace(changed, leaves_markers_out=True, leaves_ledger_open=in_ledger)
