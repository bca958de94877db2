"""`sparkmirror tail FILE`: records that are being mirrored now, a few a second."""

import argparse
import json
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import (
    add_file_arguments,
    add_partition,
    add_topic_pattern,
    add_verb,
    check_pattern,
    read_file,
)
from sparkmirror.cli.output import add_format, say
from sparkmirror.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkmirror.operations.sampling import Sampler
    from sparkmirror.views.sample import Sample

_DESCRIPTION = (
    "Print records as they arrive on the target, from now on: where each lies on both sides, time, key, value and "
    "headers. Of a fast flow only some are read and printed, and the others counted. Of a flow that renames topics by "
    "`transforms`, what arrives in its usual remote topics. It ends after --count records or --seconds."
)


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = add_verb(verbs, "tail", "records that are being mirrored, some of them", _DESCRIPTION, execute)
    add_file_arguments(parser)
    add_topic_pattern(parser)
    add_partition(parser)
    for option, default, words in (
        ("--count", 100, "end after so many records"),
        ("--seconds", 60, "end after so many seconds"),
        ("--per-second", 10, "print at most so many a second"),
        ("--bytes", 200, "show so much of keys, values and headers"),
    ):
        parser.add_argument(option, metavar="N", type=_count, default=default, help=f"{words} (default: {default})")
    add_format(parser)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a whole number above 0")
    return int(text)


def execute(args: argparse.Namespace) -> int:
    """Looks again and again and prints. Raises ConfigError, ClusterError, and SparkMirrorError with nothing to read."""
    from sparkmirror.control.commands import Selection
    from sparkmirror.operations.sampling import LOOK_SECONDS, Sampler

    check_pattern(args.topic)
    flows = read_file(args).flows
    per_look = max(int(args.per_second * LOOK_SECONDS / len(flows)), 1)
    if args.per_second < len(flows):
        raise ConfigError(f"--per-second {args.per_second} is less than one record for each flow", "choose by --flow")
    with ExitStack() as opened:
        chosen = Selection(args.topic, args.partition)
        samplers = [opened.enter_context(Sampler(flow, chosen, per_look)) for flow in flows]
        say("waiting for records")
        shown = _follow(samplers, args)
    passed_by = sum(sampler.passed_by for sampler in samplers)
    say(f"{shown} records were shown, about {passed_by:,} passed by unseen")
    return 0


def _follow(samplers: "Sequence[Sampler]", args: argparse.Namespace) -> int:
    from sparkmirror.operations.sampling import LOOK_SECONDS

    shown = 0
    ends_at = time.monotonic() + args.seconds
    while time.monotonic() < ends_at:
        began = time.monotonic()
        for sample in (sample for sampler in samplers for sample in sampler.look()):
            _print(sample, args)
            shown += 1
            if shown == args.count:
                return shown
        time.sleep(max(min(began + LOOK_SECONDS, ends_at) - time.monotonic(), 0))
    return shown


def _print(sample: "Sample", args: argparse.Namespace) -> None:
    from sparkmirror.views.sample import sample_lines

    if args.format == "json":
        print(json.dumps(sample.as_json(args.bytes)), flush=True)
    else:
        print("\n".join(sample_lines(sample, args.bytes)), flush=True)
