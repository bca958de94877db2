"""Says in how many partitions offsets are identical on both clusters, in the same words everywhere; pure."""

from sparkmirror.telemetry.problems import plural


def identical_offsets(partitions: int) -> str:
    """A clause; `partitions` is the number of those whose records are at their own offsets on the target."""
    return f"offsets are identical in {plural(partitions, 'partition')}"
