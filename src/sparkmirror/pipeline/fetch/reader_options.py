"""What a reader needs beside its plan. Made by `spark.run_reader`."""

from collections.abc import Callable
from dataclasses import dataclass

from sparkmirror.kafka.settings import ClientSettings
from sparkmirror.pipeline.fetch.connection import FetchLimits


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """`ring_bytes` 0 asks for inline payload; `commands` is the command topic.

    `wants` says whether the flow mirrors a topic; `propose` gives its target topic where classes of the user's do.
    """

    source: ClientSettings
    limits: FetchLimits
    ring_bytes: int
    wants: Callable[[str], bool]
    commands: tuple[ClientSettings, str] | None = None
    receive_bytes: int = 0
    propose: Callable[[str], str | None] | None = None
