"""The options of `kafka-runs`, and the flow they describe. Workers get them as text and parse them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from sparkmirror.errors import ConfigError

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import FlowConfig

STANDALONE = "standalone"
"""The run of queries that are started without a run's name; no command is sent to it, as it could mean any of them."""


@dataclass(frozen=True, slots=True)
class RunsOptions:
    """`config` is the text of a MirrorMaker 2 file and may hold secrets; `flow` is written `A->B`.

    `process` names one of the processes that share the flow; without it the query takes the whole flow.
    """

    config: str = field(repr=False)
    flow_name: str
    run: str
    process: str = ""

    @classmethod
    def from_mapping(cls, options: Mapping[str, str]) -> Self:
        """Raises ConfigError when one is missing."""
        config, flow = options.get("config"), options.get("flow")
        if not config or not flow:
            raise ConfigError("kafka-runs needs the options `config` and `flow`.", 'Add .option("flow", "A->B").')
        return cls(config, flow, options.get("run", STANDALONE), options.get("process", ""))

    def flow(self) -> "FlowConfig":
        """Raises ConfigError that lists every problem of the text."""
        from sparkmirror.config.flow.flows import parse_config
        from sparkmirror.config.formats.properties import parse_properties

        properties = parse_properties(self.config, "the option config")
        return parse_config(properties, flows=[self.flow_name]).flows[0]
