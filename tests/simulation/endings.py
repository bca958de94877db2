"""Which mirrors may end by themselves. Who runs one starts it again (`Scene.keep_mirror`), which would hide it."""

from collections.abc import Sequence

from tests.simulation.mirror import KILLED, STOPPED, Mirror

from sparkmirror.policy.loss import ENDS_THE_MIRROR

_LATE_SECONDS = 60.0
"""So long what a mirror asked before it ended may still reach a broker that stands still, and fence the next one."""


def wrong_endings(mirrors: Sequence[Mirror], *, is_lossy: bool) -> list[str]:
    """Of mirrors that have ended though no fault has killed them and no person stopped them, and no other one has run
    beside them or shortly before: nobody has taken them over; nor does `on.data.loss = fail` end them where `is_lossy`:
    where something was lost on one of the clusters."""
    return [
        f"{one.name} ends, and no other mirror has run beside it: {one.reason}"
        for one in mirrors
        if one.is_over
        and one.reason not in (KILLED, STOPPED)
        and not (is_lossy and one.ends_at_losses and ENDS_THE_MIRROR in one.reason)
        and not any(_meets(other, one) for other in mirrors if other is not one)
    ]


def _meets(other: Mirror, one: Mirror) -> bool:
    """Whether the other one has run, or what it had asked was under way, while this one ran."""
    return other.began_at < one.ended_at and other.ended_at + _LATE_SECONDS > one.began_at
