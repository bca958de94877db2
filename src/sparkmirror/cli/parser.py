"""The parser of the commands: verbs in groups, an example for each command, and what may have been meant by a slip.

`argparse` does the parsing; this module decides how help and usage errors read.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

_UNKNOWN_CHOICE = re.compile(r"invalid choice: '(?P<given>[^']*)' \(choose from (?P<known>.*)\)")
_UNKNOWN_OPTION = re.compile(r"^unrecognized arguments: (?P<given>.*)")


class CommandParser(argparse.ArgumentParser):
    """A parser of one command, or of those below it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", _Formatter)
        super().__init__(*args, **kwargs)
        self.set_defaults(parser=self)
        self.verb_groups: dict[str, tuple[str, ...]] = {}
        """Titles and the verbs under them, for `--help`; empty where there is one list."""

    def error(self, message: str) -> NoReturn:
        """Prints the usage and the sentence, with what may have been meant, and ends with status 2."""
        super().error(_clearer(message, self))

    def _print_message(self, message: str, file: Any = None) -> None:
        """Prints as argparse does, which ignores output that cannot be written."""
        if message:
            (file or sys.stderr).write(message)

    def format_help(self) -> str:
        """The help as argparse writes it, with the verbs in their groups."""
        if not self.verb_groups:
            return super().format_help()
        shown = self._get_formatter()
        shown.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        shown.add_text(self.description)
        lines = {one.dest: one for action in _verb_lists(self) for one in action._choices_actions}
        for title, verbs in self.verb_groups.items():
            shown.start_section(title)
            shown.add_arguments([lines[verb] for verb in verbs])
            shown.end_section()
        shown.start_section("options")
        shown.add_arguments([action for action in self._actions if action.option_strings])
        shown.end_section()
        shown.add_text(self.epilog)
        return shown.format_help()


class _Formatter(argparse.HelpFormatter):
    """Leaves examples as they are written: a wrapped command could not be copied."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        wrapped, marker, example = text.partition(_EXAMPLE)
        filled = super()._fill_text(wrapped, width, indent) if wrapped.strip() else ""
        return "\n\n".join(part for part in (filled, f"{marker}{example}") if part)


_EXAMPLE = "Example:\n"


def add_examples(parser: argparse.ArgumentParser, examples: Mapping[str, str], path: tuple[str, ...] = ()) -> None:
    """Puts under each command's help its example, and those of the commands below it where it has commands.

    Keys of `examples` are the words of a command, as `config check`.
    """
    for verb_list in _verb_lists(parser):
        for name, below in verb_list.choices.items():
            add_examples(below, examples, (*path, name))
    words = " ".join(path)
    if own := [one for command, one in examples.items() if path and f"{command} ".startswith(f"{words} ")]:
        add_example(parser, *own)


def add_example(parser: argparse.ArgumentParser, *examples: str) -> None:
    """Puts examples, which are whole command lines, at the end of the parser's help."""
    parser.epilog = "\n".join([f"{parser.epilog or ''}{_EXAMPLE.rstrip()}", *(f"  {one}" for one in examples)])


def example_in(epilog: str) -> tuple[str, str]:
    """The text of an epilog, and the example behind it."""
    text, _, example = epilog.partition(_EXAMPLE)
    return text.strip(), example.strip()


def _verb_lists(parser: argparse.ArgumentParser) -> Iterator[Any]:
    return (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))


def _clearer(message: str, parser: argparse.ArgumentParser) -> str:
    """The sentence for a slip says what may have been meant instead of all that there is."""
    from sparkmirror.config.spelling import did_you_mean

    if choice := _UNKNOWN_CHOICE.search(message):
        given = choice["given"]
        meant = _deeper(given, parser) or did_you_mean(given, re.findall(r"[^\s,']+", choice["known"]))
        if not meant and next(_verb_lists(parser), None) is None:
            return message
        return f"`{given}` is unknown{f': {meant}' if meant else f'; `{parser.prog} --help` lists what there is'}"
    if unknown := _UNKNOWN_OPTION.search(message):
        meant = did_you_mean(unknown["given"].split()[0].partition("=")[0], _options(parser))
        return f"{message}: {meant}" if meant else message
    return message


def _deeper(word: str, parser: argparse.ArgumentParser) -> str:
    """For what is a command below another one: `explain` of `config`."""
    for verb_list in _verb_lists(parser):
        for verb, below in verb_list.choices.items():
            if any(word in inner.choices for inner in _verb_lists(below)):
                return f"did you mean `{verb} {word}`?"
    return ""


def _options(parser: argparse.ArgumentParser) -> Iterable[str]:
    return [name for action in parser._actions for name in action.option_strings if name.startswith("--")]
