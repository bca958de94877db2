"""The options of `kafka-runs`, and the flow they describe. Workers get them as text and parse them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from sparkmirror.errors import ConfigError

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import FlowConfig

CONTENT_COLUMNS: Final = frozenset({"key", "value", "headers"})
CARRIED_COLUMNS: Final = CONTENT_COLUMNS | {"timestamp"}
"""Columns of a record that a flow's rows have only where a step reads them."""
TARGET_COLUMNS: Final = frozenset({"target_topic", "target_partition"})
"""Where a record goes, which is to the partition that mirrors its own where no step sets them."""
RETURNED_COLUMNS: Final = CARRIED_COLUMNS | TARGET_COLUMNS
"""Columns that the writer takes from rows only where a step sets them."""
STANDALONE = "standalone"
"""The run of queries that are started without a run's name; no command is sent to it, as it could mean any of them."""


@dataclass(frozen=True, slots=True)
class RunsOptions:
    """`config` is the text of a MirrorMaker 2 file and may hold secrets; `flow` is written `A->B`.

    `process` names one of the processes that share the flow; without it the query takes the whole flow. `carried` and
    `returned` are of flows with transforms: the columns of a record that their steps read, and those that they set;
    all of them where nobody says. `members` are those that steps read of JSON objects as values, none where they read
    values otherwise. `stages` counts the Python stages that their rows pass, the writer's included.
    """

    config: str = field(repr=False)
    flow_name: str
    run: str
    process: str = ""
    carried: frozenset[str] = CARRIED_COLUMNS
    returned: frozenset[str] = RETURNED_COLUMNS
    members: frozenset[str] = frozenset()
    stages: int = 1

    @classmethod
    def from_mapping(cls, options: Mapping[str, str]) -> Self:
        """Raises ConfigError when one is missing."""
        config, flow = options.get("config"), options.get("flow")
        if not config or not flow:
            raise ConfigError("kafka-runs needs the options `config` and `flow`.", 'Add .option("flow", "A->B").')
        returned = _columns(options.get("returned"), RETURNED_COLUMNS)
        run, process = options.get("run", STANDALONE), options.get("process", "")
        stages = int(options.get("stages", 1))
        members = frozenset(filter(None, options.get("members", "").split(",")))
        return cls(config, flow, run, process, carried_columns(options), returned, members, stages)

    def flow(self) -> "FlowConfig":
        """Raises ConfigError that lists every problem of the text."""
        from sparkmirror.config.flow.flows import parse_config
        from sparkmirror.config.formats.properties import parse_properties

        properties = parse_properties(self.config, "the option config")
        return parse_config(properties, flows=[self.flow_name]).flows[0]


def carried_columns(options: Mapping[str, str]) -> frozenset[str]:
    """`RunsOptions.carried`, where the other options may lack."""
    return _columns(options.get("carried"), CARRIED_COLUMNS)


def _columns(named: str | None, every: frozenset[str]) -> frozenset[str]:
    return every if named is None else frozenset(named.split(",")) & every
