"""`sparkmirror completion bash|zsh|fish|tcsh`: a script by which a shell completes verbs, options and their values.

The scripts are shtab's, made of the parsers.
"""

import argparse
from collections.abc import Iterable, Iterator
from typing import Any

from sparkmirror.cli.file import add_verb

SHELLS = ("bash", "zsh", "fish", "tcsh")
_DESCRIPTION = (
    "Print a script that completes sparkmirror, connect-mirror-maker and kafka-mirror-maker. For bash: "
    "`source <(sparkmirror completion bash)`, in ~/.bashrc for example. For zsh: "
    '`eval "$(sparkmirror completion zsh)"` behind compinit in ~/.zshrc. For fish: '
    "`sparkmirror completion fish | source`. For tcsh: write it to a file and source that."
)


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = add_verb(verbs, "completion", "a script that completes commands in a shell", _DESCRIPTION, execute)
    parser.add_argument("shell", choices=SHELLS, help="the shell to write it for")


def execute(args: argparse.Namespace) -> int:
    """Prints the script."""
    from sparkmirror.cli.main import all_parsers

    print(completion_script(all_parsers(), args.shell))
    return 0


def completion_script(parsers: Iterable[argparse.ArgumentParser], shell: str) -> str:
    """One script after the other, for each command; `shell` is one of SHELLS."""
    import shtab

    scripts = []
    for parser in parsers:
        for action in _actions(parser):
            if action.metavar in ("FILE", "DIR"):
                action.complete = shtab.FILE if action.metavar == "FILE" else shtab.DIRECTORY  # type: ignore[attr-defined]
        scripts.append(shtab.complete(parser, shell))
    return "\n".join(scripts)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The actions of the parser and of all parsers below it."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
