"""Says in how many partitions offsets are identical on both clusters, in the same words everywhere; pure."""

from collections import Counter
from collections.abc import Iterable

from sparkmirror.telemetry.problems import plural


def identical_offsets(partitions: int, unknown: int = 0) -> str:
    """A clause; `partitions` is the number of those whose records are at their own offsets on the target, `unknown` of
    those of which that is not known. "" where there are neither."""
    if not partitions and not unknown:
        return ""
    unclear = f" (of {unknown} it is not known)" if unknown else ""
    return f"offsets are identical in {plural(partitions, 'partition')}{unclear}"


def count_identical(found: Iterable[bool | None]) -> str:
    """The same of what is known of each partition, None where that is unknown."""
    each = Counter(found)
    return identical_offsets(each[True], each[None])
