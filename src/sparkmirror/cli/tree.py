"""The commands with their verbs and arguments as data, read off argparse's parsers; pure.

From it `cli.completion` makes shell scripts and `cli.reference` makes docs/cli.md.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

_PATHS = {"FILE": "file", "DIR": "directory"}


@dataclass(frozen=True, slots=True)
class Argument:
    """An option (`names` begin with `-`) or a positional argument; `values` is what it is written with, "" for a flag.

    `kind` says what completes a value: `file`, `directory`, or nothing.
    """

    names: tuple[str, ...]
    values: str
    about: str
    choices: tuple[str, ...] = ()
    kind: str = ""

    @property
    def is_option(self) -> bool:
        return self.names[0].startswith("-")


@dataclass(frozen=True, slots=True)
class Command:
    """`path` are the words to type: `sparkmirror`, `config`, `check`."""

    path: tuple[str, ...]
    about: str
    description: str
    epilog: str
    arguments: tuple[Argument, ...]
    commands: tuple["Command", ...] = ()

    @property
    def options(self) -> tuple[Argument, ...]:
        return tuple(one for one in self.arguments if one.is_option)

    def walk(self) -> Iterator["Command"]:
        """This one, and all below it."""
        yield self
        for command in self.commands:
            yield from command.walk()


def read_command(parser: argparse.ArgumentParser, path: tuple[str, ...] = (), about: str = "") -> Command:
    """The command that a parser parses; its name is the parser's where `path` is empty."""
    own = path or (parser.prog,)
    arguments: list[Argument] = []
    commands: list[Command] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words = {one.dest: one.help or "" for one in action._choices_actions}
            commands += [read_command(below, (*own, name), words[name]) for name, below in action.choices.items()]
        elif action.help != argparse.SUPPRESS:
            arguments.append(_argument(action))
    return Command(own, about, parser.description or "", parser.epilog or "", tuple(arguments), tuple(commands))


def _argument(action: argparse.Action) -> Argument:
    choices = tuple(map(str, action.choices or ()))
    word = str(action.metavar or ("|".join(choices) if choices else action.dest.upper()))
    names = tuple(action.option_strings) or (word,)
    values = "" if action.nargs == 0 else {"+": f"{word} …", "?": f"[{word}]"}.get(str(action.nargs), word)
    return Argument(names, values, " ".join((action.help or "").split()), choices, _PATHS.get(word, ""))
