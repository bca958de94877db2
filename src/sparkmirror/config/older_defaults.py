"""Where a file has another meaning than it had with an older MirrorMaker; pure. Shown by `config check`."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from sparkmirror.config.flow.flows import FlowConfig
from sparkmirror.config.keys.table import TOPICS_EXCLUDE
from sparkmirror.policy.filters import NameFilter

TOPICS_EXCLUDE_BEFORE_4: Final = (r".*[\-\.]internal", r".*\.replica", "__.*")
"""Up to MirrorMaker 3.9 (`DefaultTopicFilter.TOPICS_EXCLUDE_DEFAULT`)."""
_LITERAL = re.compile(r"[\w\-]+(\\?\.[\w\-]+)*")


def notes_on(flows: Iterable[FlowConfig]) -> Iterator[str]:
    """A sentence for each flow that depends on a default which MirrorMaker has changed."""
    for flow in flows:
        if flow.topics.exclude == TOPICS_EXCLUDE.default and any(map(_may_name_internal, flow.topics.include)):
            yield (
                f"{flow.name} leaves `topics.exclude` out, so a topic such as orders.internal or orders-internal is "
                "mirrored where `topics` includes it, as by MirrorMaker from 4.0 on; up to 3.9 it was left out, as "
                f"`topics.exclude = {', '.join(TOPICS_EXCLUDE_BEFORE_4)}` says"
            )


def _may_name_internal(expression: str) -> bool:
    """Whether a topic that only the older default left out may match: any pattern may, of plain names those alone."""
    return _LITERAL.fullmatch(expression) is None or not NameFilter(exclude=TOPICS_EXCLUDE_BEFORE_4[:1]).accepts(
        expression.replace("\\", "")
    )
