"""Which worker runs which test, where there are several (xdist)."""

from typing import Final

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

_LANES: Final = ("scenarios", "components and faults")
_UNIT: Final = "unit"


class TwoLanesForClusters(LoadScopeScheduling):
    """Files of tests with brokers form two lanes, one for each worker, which go first; unit tests follow.

    More of them at once would fight for the cores, and would each start the session's clusters. A worker whose lane is
    over takes files from the other lane's end, so that none waits for the other; the small files of unit tests come
    last, and let both end at the same time.
    """

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        own = _LANES[self.nodes.index(node) % len(_LANES)]
        self.workqueue.move_to_end(next_file(list(self.workqueue), own), last=False)
        super()._assign_work_unit(node)


def lane_of(file: str) -> str:
    folder = file.removeprefix("tests/").partition("/")[0]
    return {"scenarios": _LANES[0], "unit": _UNIT}.get(folder, _LANES[1])


def next_file(waiting: list[str], own: str) -> str:
    """Of those that wait: the first of the own lane, else the last of the other one, else the first of unit tests."""
    lanes = {name: [file for file in waiting if lane_of(file) == name] for name in (*_LANES, _UNIT)}
    (other,) = (name for name in _LANES if name != own)
    return next(iter([*lanes[own], *reversed(lanes[other]), *lanes[_UNIT]]))
