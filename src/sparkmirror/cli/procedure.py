"""The common parts of `failover`, `failback` and `migrate`: arguments, their flow, steps with a journal, and output."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import add_flows, add_input_arguments, add_verb, read_file
from sparkmirror.cli.output import add_format, say
from sparkmirror.clock import show_age
from sparkmirror.errors import ConfigError, SparkMirrorError
from sparkmirror.shown import show_lines

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import FlowConfig, MirrorConfig
    from sparkmirror.operations.failback import Divergence, HomePlace
    from sparkmirror.operations.failover import Readiness
    from sparkmirror.operations.journal import TopicJournal
    from sparkmirror.operations.steps import Step
    from sparkmirror.views.table import Page


def add_kind(kinds: Any, name: str, description: str, command: Any) -> argparse.ArgumentParser:
    """One kind of the verb, with FILE, `--flow`, `--format` and `--debug`."""
    parser = add_verb(kinds, name, description, description, command, is_question=name not in ("run", "accept"))
    add_input_arguments(parser)
    add_flows(parser)
    add_format(parser)
    return parser


def add_endings(parser: argparse.ArgumentParser) -> None:
    """`--undo`, `--finish`, `--forget` and `--yes`, of verbs that take steps."""
    endings = parser.add_mutually_exclusive_group()
    endings.add_argument("--undo", action="store_true", help="take back the steps that were taken, the last one first")
    endings.add_argument("--finish", action="store_true", help="nothing is to be undone any more")
    parser.add_argument("--yes", action="store_true", help="ask nothing (a script without a terminal is never asked)")
    endings.add_argument("--forget", action="store_true", help="begin again: what is noted of steps is deleted")


def confirm(args: argparse.Namespace, question: str) -> None:
    """Asks a person at a terminal, without `--yes`; a script is never asked. Raises SparkMirrorError for no."""
    if args.yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    print(show_lines(f"{question} [y/N] "), end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().casefold() not in ("y", "yes"):
        raise SparkMirrorError("Nothing was changed.", "Answer y, or say --yes, to do it.")


def one_flow(args: argparse.Namespace) -> "FlowConfig":
    """The only flow of the file, or the one named. Raises ConfigError."""
    return only_flow(read_file(args), args)


def only_flow(config: "MirrorConfig", args: argparse.Namespace) -> "FlowConfig":
    """The one flow of a file that was read, as `one_flow`."""
    flows = config.flows
    if len(flows) != 1:
        names = ", ".join(str(flow.name) for flow in flows)
        raise ConfigError(f"this is done flow by flow, and the file has {names}", "name one: --flow", file=args.file)
    return flows[0]


def journal_of(flow: "FlowConfig", procedure: str) -> "TopicJournal":
    """The journal, on the target, which stays when the source is gone."""
    from sparkmirror.operations.journal import TopicJournal

    return TopicJournal(flow, procedure)


def end(args: argparse.Namespace, journal: "TopicJournal") -> bool:
    """Does what `--finish` and `--forget` ask for; whether that was all. What is final then is said once more, as which
    groups were left alone."""
    from sparkmirror.operations.steps import finish_steps

    if args.finish:
        finish_steps(journal)
        for name, taken in journal.load().steps.items():
            tell(name, taken.sentence)
        tell("finish", "from here on nothing is undone")
    elif args.forget:
        journal.forget()
        tell("forget", "what was noted of steps is deleted")
    return bool(args.finish or args.forget)


def rehearse(steps: "Sequence[Step]") -> None:
    """The changes that each step would make, by the note that it writes before it changes anything."""
    for step in steps:
        counts = ", ".join(f"{len(value)} {name}" for name, value in step.prepare().items())
        tell(step.name, f"would be done: {counts}")


def tell(step: str, sentence: str) -> None:
    say(f"{step}: {sentence}")


_SHOWN_MAX = 10


def render_readiness(found: "Readiness") -> "Page":
    """The answer to "what if we failed over now", for one flow."""
    before, after = ([f"  {line}" for line in lines] for lines in ([*_loss(found), *_same(found)], _differences(found)))
    return [f"{found.flow}, if it failed over now:", *before, *_groups(found), *after]


def _loss(found: "Readiness") -> list[str]:
    if not found.source_answers:
        heard = "never" if found.heard_seconds is None else f"{show_age(found.heard_seconds)} ago"
        return [
            f"cluster {found.flow.source} does not answer, or was not asked: what is on it alone is not known",
            f"the mirror stored its last position {heard}",
        ]
    if not found.behind and not found.unknown:
        return ["nothing would be lost: all is mirrored"]
    return [*_unknown(found), *_behind(found)]


def _same(found: "Readiness") -> list[str]:
    from sparkmirror.views.identical import identical_offsets

    count = len(found.identical.partitions)
    said = identical_offsets(count, len(found.identical.unknown))
    return [f"{said}: programs that keep their own go on with them" if count else said] if said else []


def _unknown(found: "Readiness") -> list[str]:
    if not found.unknown:
        return []
    lines = [f"of {len(found.unknown)} partitions nobody knows what would be lost if {found.flow.source} is gone:"]
    lines += [f"  {where}: {reason}" for where, reason in sorted(found.unknown.items())[:_SHOWN_MAX]]
    return [*lines, *_more(len(found.unknown))]


def _behind(found: "Readiness") -> list[str]:
    if not found.behind:
        return []
    records, oldest = sum(one.records for one in found.behind), show_age(found.oldest_seconds)
    also = "of the others " if found.unknown else ""
    lines = [f"{also}{records} records would be lost if {found.flow.source} is gone, the oldest {oldest} old:"]
    for one in found.behind[:_SHOWN_MAX]:
        lines.append(f"  {one.partition}: from {one.position} to {one.end}, {one.records} records")
    return [*lines, *_more(len(found.behind))]


def _groups(found: "Readiness") -> "Page":
    from sparkmirror.views.table import make_table

    if not found.groups():
        return ["  no group has committed offsets of mirrored topics"]
    rows = [
        (
            group,
            _members(found, group),
            _count(found.repeats(group, planned=True)),
            _count(found.repeats(group, planned=False)),
            len({place for place in found.untranslated if place.group == group}) or "",
        )
        for group in found.groups()
    ]
    titles = ("group", "members on", "again, planned", "again, source lost", "not translated")
    return [make_table(titles, rows, indent=2)]


def _members(found: "Readiness", group: str) -> str:
    names = ((found.flow.source, found.active_on_source), (found.flow.target, found.active_on_target))
    return ", ".join(alias for alias, active in names if group in active) or "neither"


def _count(repeats: int | None) -> str:
    return "unknown" if repeats is None else str(repeats)


def _differences(found: "Readiness") -> list[str]:
    if not found.differences:
        return [found.in_step] if found.in_step else []
    return [
        "not in step yet:",
        *(f"  {sentence}" for sentence in found.differences[:_SHOWN_MAX]),
        *_more(len(found.differences)),
    ]


def render_divergence(source: str, found: "Sequence[Divergence]") -> list[str]:
    """Records that only the old primary has."""
    if not found:
        return [f"{source} has nothing that was not mirrored"]
    lines = [f"{sum(one.records for one in found)} records are on {source} only:"]
    lines += [f"  {one.partition}: from {one.first} to {one.end}, {one.records} records" for one in found[:_SHOWN_MAX]]
    return [*lines, *_more(len(found))]


def render_home(target: str, places: "Sequence[HomePlace]") -> "Page":
    """The offsets at which groups go on when they return."""
    from sparkmirror.views.table import make_table

    if not places:
        return [f"no group on {target} has read mirrored topics"]
    rows = [
        (one.group, one.remote, one.stands, one.home, "none" if one.offset is None else one.offset,
         "yes" if one.exact else "not beyond")
        for one in places
    ]  # fmt: skip
    return [make_table(("group", "stands at", "offset", "returns to", "offset", "exact"), rows)]


def _more(count: int) -> list[str]:
    return [f"  and {count - _SHOWN_MAX} more"] if count > _SHOWN_MAX else []
