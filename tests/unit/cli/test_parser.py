"""Help and slips: verbs in groups, an example that works in each help, and what may have been meant."""

import argparse
import shlex
from collections.abc import Callable, Iterator

import pytest

from sparkmirror import __version__
from sparkmirror.cli.examples import EXAMPLES
from sparkmirror.cli.main import build_parser, connect_mirror_maker, main, mirror_maker_1
from sparkmirror.cli.reference import Command, read_command


def leaves() -> Iterator[Command]:
    return (one for one in read_command(build_parser()).walk() if not one.commands)


def test_each_command_has_an_example_and_no_example_is_left_over() -> None:
    assert {" ".join(leaf.path[1:]) for leaf in leaves()} == EXAMPLES.keys()


@pytest.mark.parametrize("words", EXAMPLES)
def test_an_example_is_in_the_help_and_is_understood(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    example = EXAMPLES[words]
    if words != "demo":  # the demonstration parses its own arguments
        with pytest.raises(SystemExit) as ended:
            main([*words.split(), "--help"])
        assert ended.value.code == 0
        assert capsys.readouterr().out.endswith(f"Example:\n  {example}\n"), "a wrapped command cannot be copied"
    command = example.removeprefix("source <(").removesuffix(")").partition(" > ")[0]
    program, *arguments = shlex.split(command)
    assert program == "sparkmirror" and arguments[: len(words.split())] == words.split()
    args, rest = build_parser().parse_known_args(arguments)
    assert isinstance(args, argparse.Namespace) and (not rest or args.takes_rest)


WHOLE = read_command(build_parser())
ABOVE = [WHOLE.path, *(one.path for one in WHOLE.commands if one.commands)]


@pytest.mark.parametrize("path", [*ABOVE, ("sparkmirror", "demo")], ids=" ".join)
def test_help_above_commands_has_examples_too(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*path[1:], "--help"])
    assert ended.value.code == 0
    _, _, examples = capsys.readouterr().out.partition("Example:")
    assert examples.split() and all(line.strip().startswith(" ".join(path)) for line in examples.strip().splitlines())


@pytest.mark.parametrize("entry", [connect_mirror_maker, mirror_maker_1])
def test_help_of_mirror_makers_commands_has_an_example(
    entry: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        entry(["--help"])
    assert "mirror-maker" in capsys.readouterr().out.partition("\nExample:\n  ")[2]


def test_help_puts_each_verb_into_one_group(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    lines = capsys.readouterr().out.partition("\nExample:")[0].splitlines()
    groups = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert groups == [
        "run:", "inspect:", "control a running mirror:", "offsets and disaster recovery:", "configuration:", "options:",
    ]  # fmt: skip
    first = [line.split()[0] for line in lines if line.startswith("  ") and not line.startswith("   ")]
    verbs = [command.path[-1] for command in read_command(build_parser()).commands]
    assert sorted(word for word in first if not word.startswith("-")) == sorted(verbs)


def test_the_version_is_an_option_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"sparkmirror {__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["staus", "f"], "`staus` is unknown: did you mean `status`?"),
        (["offsets", "rest", "f"], "`rest` is unknown: did you mean `reset`?"),
        (["completion", "zhs"], "`zhs` is unknown: did you mean `zsh`?"),
        (["verify", "f", "--topc", "x"], "unrecognized arguments: --topc x: did you mean `--topic`?"),
        (["verify", "f", "--topc=x"], "unrecognized arguments: --topc=x: did you mean `--topic`?"),
        (["offsets", "reset", "f", "--group", "g", "--cluster", "B", "--to-latest", "--exceute"], "`--execute`?"),
        (["run", "f", "--quux"], "unrecognized arguments: --quux\n"),
        (["explain", "f"], "`explain` is unknown: did you mean `config explain`?"),
        (["frobnicate"], "`frobnicate` is unknown; `sparkmirror --help` lists what there is"),
        (["config", "frobnicate"], "`frobnicate` is unknown; `sparkmirror config --help` lists what there is"),
    ],
)
def test_a_slip_is_answered_with_what_may_have_been_meant(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert sentence in said


SHARED = {
    "--flow": "only this flow, as in 'A->B'; may be repeated",
    "--topic": "only topics whose whole name matches, as in 'orders.*'",
    "--partition": "only this partition number",
}


@pytest.mark.parametrize("option", SHARED)
def test_an_option_means_the_same_in_each_command(option: str) -> None:
    about = {leaf.path: one.about for leaf in leaves() for one in leaf.options if option in one.names}
    assert len(about) > 3
    assert set(about.values()) == {SHARED[option]}


def test_the_cluster_option_names_the_cluster_that_is_asked() -> None:
    about = [one.about for leaf in leaves() for one in leaf.options if "--cluster" in one.names]
    assert len(about) > 3
    assert all(words.startswith("the cluster to ask") for words in about)


def test_the_flow_option_does_not_swallow_the_file() -> None:
    args = build_parser().parse_args(["status", "--flow", "A->B", "--flow", "B->C", "mirror.properties"])
    assert (args.flow, args.file) == (["A->B", "B->C"], "mirror.properties")
