"""What `failover`, `failback` and `migrate` share: their arguments, their flow, and taking steps with a journal."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import add_flows, add_input_arguments, add_verb, read_file
from sparkmirror.cli.output import add_format, say
from sparkmirror.errors import ConfigError

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import FlowConfig, MirrorConfig
    from sparkmirror.operations.journal import TopicJournal
    from sparkmirror.operations.steps import Step


def add_kind(kinds: Any, name: str, description: str, command: Any) -> argparse.ArgumentParser:
    """One kind of the verb, with FILE, `--flow`, `--format` and `--debug`."""
    parser = add_verb(kinds, name, description, description, command)
    add_input_arguments(parser)
    add_flows(parser)
    add_format(parser)
    return parser


def add_endings(parser: argparse.ArgumentParser) -> None:
    """What may be done with steps that were taken."""
    endings = parser.add_mutually_exclusive_group()
    endings.add_argument("--undo", action="store_true", help="take back the steps that were taken, the last one first")
    endings.add_argument("--finish", action="store_true", help="nothing is to be undone any more")
    endings.add_argument("--forget", action="store_true", help="begin anew: what is noted of steps is deleted")


def one_flow(args: argparse.Namespace) -> "FlowConfig":
    """The only flow of the file, or the one named. Raises ConfigError."""
    return only_flow(read_file(args), args)


def only_flow(config: "MirrorConfig", args: argparse.Namespace) -> "FlowConfig":
    """As `one_flow`, of a file that was read."""
    flows = config.flows
    if len(flows) != 1:
        names = ", ".join(str(flow.name) for flow in flows)
        raise ConfigError(f"this is done flow by flow, and the file has {names}", "name one: --flow", file=args.file)
    return flows[0]


def journal_of(flow: "FlowConfig", procedure: str) -> "TopicJournal":
    """On the target, which stays when the source is gone."""
    from sparkmirror.ledger.topics import ledger_topics
    from sparkmirror.operations.journal import TopicJournal

    topic = ledger_topics(flow.name.source, flow.offset_storage_topic).status
    return TopicJournal(flow.target, topic, procedure, flow.name)


def end(args: argparse.Namespace, journal: "TopicJournal") -> bool:
    """Does what `--finish` and `--forget` ask for; whether that was all."""
    from sparkmirror.operations.steps import finish_steps

    if args.finish:
        finish_steps(journal)
        tell("finish", "from here on nothing is undone")
    elif args.forget:
        journal.forget()
        tell("forget", "what was noted of steps is deleted")
    return bool(args.finish or args.forget)


def rehearse(steps: "Sequence[Step]") -> None:
    """What each step would do, by what it notes before it changes anything."""
    for step in steps:
        counts = ", ".join(f"{len(value)} {name}" for name, value in step.prepare().items())
        tell(step.name, f"would be done: {counts}")


def tell(step: str, sentence: str) -> None:
    say(f"{step}: {sentence}")
