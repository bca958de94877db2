"""Which mirrors may end by themselves. Who runs one starts it again (`Scene.keep_mirror`), which would hide it."""

from collections.abc import Sequence

from tests.simulation.mirror import KILLED, STOPPED, Mirror

_LATE_SECONDS = 60.0
"""So long what a mirror asked before it ended may still reach a broker that stands still, and fence the next one."""


def wrong_endings(mirrors: Sequence[Mirror]) -> list[str]:
    """Of mirrors that have ended though no fault has killed them and no person stopped them, and no other one has run
    beside them or shortly before: nobody has taken them over. `on.data.loss = fail`, which ends a mirror, is in no
    history."""
    return [
        f"{one.name} ends, and no other mirror has run beside it: {one.reason}"
        for one in mirrors
        if one.is_over
        and one.reason not in (KILLED, STOPPED)
        and not any(_meets(other, one) for other in mirrors if other is not one)
    ]


def _meets(other: Mirror, one: Mirror) -> bool:
    """Whether the other one has run, or what it had asked was under way, while this one ran."""
    return other.began_at < one.ended_at and other.ended_at + _LATE_SECONDS > one.began_at
