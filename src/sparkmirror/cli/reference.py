"""Writes the reference of all commands from their parsers: `python -m sparkmirror.cli.reference > docs/cli.md`."""

from collections.abc import Iterator, Sequence

from sparkmirror.cli.tree import Argument, Command

_TITLE = """\
# Commands

Written by `python -m sparkmirror.cli.reference` from the parsers themselves; a test compares. What the commands print
is shown in [operating.md](operating.md), [failover.md](failover.md) and [offsets.md](offsets.md).

FILE is a MirrorMaker 2 properties file or a Strimzi `KafkaMirrorMaker2` resource, the one that the mirror runs with.
Every command knows `--help`, and `--debug`, which shows stack traces with errors; they are left out below. Exit status:
0 done, 1 run-time error, 2 configuration or usage, 3 environment, 130 interrupted.
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
    for text in (leaf.description, leaf.epilog):
        if text:
            yield ""
            yield text
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


if __name__ == "__main__":
    from sparkmirror.cli.main import all_commands

    print(reference(all_commands()), end="")
