"""Writes the reference of all commands from their parsers: `python -m sparkmirror.cli.reference > docs/cli.md`.

`read_command` reads a parser's verbs and arguments into `Command`, a value.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparkmirror.cli.parser import example_in


@dataclass(frozen=True, slots=True)
class Argument:
    """An option, whose `names` begin with `-`, or a positional argument; `values` follow it, "" for a flag."""

    names: tuple[str, ...]
    values: str
    about: str
    choices: tuple[str, ...] = ()

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
    return Argument(names, values, " ".join((action.help or "").split()), choices)


_TITLE = """\
# Commands

Written by `python -m sparkmirror.cli.reference` from the parsers themselves; a test compares. What the commands print
is shown in [operating.md](operating.md), [failover.md](failover.md) and [offsets.md](offsets.md).

FILE is a MirrorMaker 2 properties file or a Strimzi `KafkaMirrorMaker2` resource, the one that the mirror runs with.
Every command knows `--help`, and `--debug`, which shows stack traces with errors; they are left out below. `--flow`,
`--topic`, `--partition` and `--cluster` mean the same wherever they are: this flow of the file, topics whose whole name
matches, this partition number, the cluster that is asked. Commands that move positions or offsets, or rebuild the
offset map, print what they would do until `--execute` is there; `failover run`, `failback run` and `migrate run` ask a
person at a terminal first, unless `--yes` is there; all others act, and nothing waits for an answer without a terminal.

## Exit statuses

| status | of | |
|---|---|---|
| 0 | all | done; what was asked for is printed, be it bad news |
| 1 | all | a run-time error: a cluster that does not answer or refuses, another instance that has taken over |
| 1 | `verify` | a record differs, is missing, or is there beside the source's |
| 1 | `doctor`, `version --check` | at least one finding is FAIL |
| 2 | all | the configuration or the usage is wrong |
| 2 | `config check` | the file cannot be used; with `--strict` also where there are warnings |
| 3 | all | this machine lacks something: Java, a Python package, a port |
| 4 | `verify` | nothing differs, and a partition could not be compared, also where a cluster did not answer |
| 130 | all | interrupted by Ctrl-C |
| 141 | all | the reader of the output has gone, as with `\\| head` |

## All commands
"""
_EVERYWHERE = ("--help", "--debug")


def reference(commands: Sequence[Command]) -> str:
    """The page, for all commands and all that is below them."""
    lines = [_TITLE, "| command | |", "|---|---|"]
    leaves = [leaf for command in commands for leaf in command.walk() if not leaf.commands]
    lines += [f"| [`{_name(leaf)}`](#{_anchor(leaf)}) | {_cell(leaf.about or leaf.description)} |" for leaf in leaves]
    for leaf in leaves:
        lines += ["", *_section(leaf)]
    return "\n".join(lines) + "\n"


def _section(leaf: Command) -> Iterator[str]:
    yield f"## {_name(leaf)}"
    yield ""
    yield f"`{_usage(leaf)}`"
    text, example = example_in(leaf.epilog)
    for paragraph in (leaf.description, text):
        if paragraph:
            yield ""
            yield paragraph
    if example:
        yield from ("", "```", example, "```")
    shown = [one for one in leaf.arguments if not set(one.names) & set(_EVERYWHERE)]
    if shown:
        yield from ("", "| argument | |", "|---|---|")
    for one in shown:
        yield f"| {_spelling(one)} | {_cell(one.about)} |"


def _usage(leaf: Command) -> str:
    words = [one.values if one.values else one.names[0] for one in leaf.arguments if not one.is_option]
    options = ["[OPTION …]"] if leaf.options else []
    return " ".join([*leaf.path, *words, *options])


def _spelling(one: Argument) -> str:
    names = ", ".join(f"`{name}`" for name in one.names)
    if not one.is_option:
        return names
    values = "|".join(one.choices) or one.values
    return names if not values else f"{names} `{values}`".replace("|", "\\|")


def _name(leaf: Command) -> str:
    return " ".join(leaf.path)


def _anchor(leaf: Command) -> str:
    return "-".join(leaf.path)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def all_commands() -> list[Command]:
    """Every command that is installed, with its arguments."""
    from sparkmirror.cli.main import all_parsers

    return [read_command(parser) for parser in all_parsers()]


if __name__ == "__main__":
    print(reference(all_commands()), end="")
