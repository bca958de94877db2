"""`kafka-mirror-maker`: MirrorMaker 1's command line. Only reads arguments; the meaning is in `config.formats.mm1`.

Entry point is `cli.main.mirror_maker_1`. Socket buffers larger than the operating system grants give a warning.
"""

import argparse
import socket
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sparkmirror import __version__
from sparkmirror.cli.file import add_debug, add_files, add_topic_lists
from sparkmirror.cli.output import add_format, add_log_format
from sparkmirror.cli.plan import show_plan
from sparkmirror.cli.run import plan_for, refuse_without_key, say_before
from sparkmirror.config.formats.mm1_names import IDLE_OPTIONS, IDLE_OPTIONS_WITH_VALUE, REFUSED_OPTIONS
from sparkmirror.errors import ConfigError

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import FlowConfig

DESCRIPTION = "Mirror topics under their own names, with the files and options of MirrorMaker 1, until stopped."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """MirrorMaker 1's options, then ours."""
    add = parser.add_argument
    add_files(parser, required=True)
    add_topic_lists(parser)
    add(
        "--num.streams",
        dest="streams",
        metavar="N",
        type=_count,
        default=1,
        help="Spark tasks for each source (default: 1)",
    )
    add(
        "--num.producers",
        dest="producers",
        metavar="N",
        type=_count,
        help="connections of a task to each target broker (default: 2)",
    )
    add(
        "--abort.on.send.failure",
        dest="abort",
        metavar="true|false",
        nargs="?",
        const=True,
        default=True,
        type=_boolean,
        help="end when the target refuses a record for good (default: true); with false that partition "
        "is held and tried again, all others go on",
    )
    add(
        "--offset.commit.interval.ms",
        dest="commit_interval_ms",
        metavar="MS",
        type=_count,
        default=60_000,
        help="how often progress is committed to group.id on the source (default: 60000)",
    )
    for option, reason in IDLE_OPTIONS.items():
        add(option, dest="idle", action="store_true", help=f"accepted, without effect: {reason}")
    for option, reason in IDLE_OPTIONS_WITH_VALUE.items():
        add(option, dest="idle", metavar="N", help=f"accepted, without effect: {reason}")
    for option, reason in REFUSED_OPTIONS.items():
        add(option, dest="refused", metavar="…", nargs="?", action=_Refuse, help=f"refused: {reason}")
    add("--version", action="version", version=f"%(prog)s {__version__}")
    add("--once", action="store_true", help="stop when all that is there now is mirrored")
    add("--dry-run", action="store_true", help="print what would be done and change nothing")
    add_format(parser)
    add_log_format(parser)
    add_debug(parser)
    add("--master", metavar="URL", help="a Spark master (default: this machine)")
    parser.set_defaults(command=execute, takes_rest=False)


def execute(args: argparse.Namespace) -> int:
    """Reads the files, prints their warnings and hands over. Raises ConfigError and what the engine raises."""
    from sparkmirror.config.formats.mm1 import MirrorMaker1, translate_mm1
    from sparkmirror.runtime.options import RunOptions

    for option in args.refused or ():
        _refuse(option)
    command = MirrorMaker1(
        tuple(args.consumer_files),
        args.producer_file,
        args.include,
        args.exclude,
        args.streams,
        args.producers,
        args.abort,
        args.commit_interval_ms,
    )
    config = translate_mm1(command)
    say_before(config, args, config.warnings)
    say_before(config, args, describe_buffers(config.flows), prefix="")

    if args.dry_run:
        return show_plan(config, args)

    from sparkmirror.runtime.start import run_mirror

    cluster = plan_for(config, args.master, ()) if args.master else None
    refuse_without_key(cluster)
    return run_mirror(config, RunOptions(args.once, cluster, args.debug, args.log_format))


class _Refuse(argparse.Action):
    """Remembers an option that would change what is mirrored, by the name under which it was given."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,  # noqa: ARG002
        option_string: str | None = None,
    ) -> None:
        namespace.refused = [*(namespace.refused or ()), option_string or self.option_strings[0]]


def _refuse(option: str) -> None:
    hint = "`sparkmirror run` changes records with `transforms.…`" if "handler" in option else "leave it out"
    raise ConfigError(f"{option} is not supported: {REFUSED_OPTIONS[option]}", hint)


def _count(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a whole number above 0")
    return int(text)


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"`{text}` is neither true nor false")
    return text.strip().lower() == "true"


_LIMITS = {socket.SO_RCVBUF: "net.core.rmem_max", socket.SO_SNDBUF: "net.core.wmem_max"}


def granted_bytes(option: int, wanted_bytes: int) -> int:
    """The size that a new TCP socket gets for SO_RCVBUF or SO_SNDBUF. Linux reports the double, for its own records."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, option, wanted_bytes)
        granted = probe.getsockopt(socket.SOL_SOCKET, option)
    return granted // 2 if sys.platform == "linux" else granted


def describe_buffers(flows: "Iterable[FlowConfig]") -> list[str]:
    """A sentence for each buffer that is asked for: the size that this machine grants."""
    return list(dict.fromkeys(sentence for flow in flows for sentence in _of_flow(flow)))


def _of_flow(flow: "FlowConfig") -> Iterator[str]:
    for option, name, alias, wanted in (
        (socket.SO_RCVBUF, "receive.buffer.bytes", flow.name.source, flow.consumer.receive_buffer_bytes),
        (socket.SO_SNDBUF, "send.buffer.bytes", flow.name.target, flow.producer.send_buffer_bytes),
    ):
        if wanted > 0:
            granted = granted_bytes(option, wanted)
            less = f"; raise {_LIMITS[option]} for more" if granted < wanted else ""
            yield f"{alias}: {name} is {wanted}, the system grants {granted} bytes{less}"
