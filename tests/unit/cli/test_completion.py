"""Completion in a real bash, and the reference of all commands in docs/."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.programs import program

from sparkmirror.cli.completion import SHELLS, completion_script
from sparkmirror.cli.main import all_parsers
from sparkmirror.cli.reference import all_commands, reference

DOCS = Path(__file__).parents[3] / "docs"
COMPLETE = """
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); compopt() { :; }
command=${1##*/}
"_shtab_${command//-/_}" "$1"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def complete(script: Path, *words: str, directory: Path) -> set[str]:
    """What bash offers for the last of `words`."""
    program = f"source {script}\n{COMPLETE}"
    done = subprocess.run(
        ["bash", "-c", program, "bash", *words], cwd=directory, capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stderr == ""
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bash") / "completion.bash"
    path.write_text(completion_script(all_parsers(), "bash"))
    return path


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("sparkmirror", "to"), {"topics", "topology"}),
        (("sparkmirror", "offsets", ""), {"at", "reset", "translate", "rebuild"}),
        (("/usr/bin/sparkmirror", "config", "ch"), {"check"}),
        (("sparkmirror", "status", "f.properties", "--format", ""), {"table", "json"}),
        (("sparkmirror", "topology", "--format", "s"), {"svg"}),
        (
            ("sparkmirror", "offsets", "reset", "f", "--to-"),
            {"--to-time", "--to-checkpoint", "--to-earliest", "--to-latest"},
        ),
        (("sparkmirror", "run", "--debug", "--on"), {"--once"}),
        (("sparkmirror", "completion", ""), set(SHELLS)),
        (("connect-mirror-maker", "--cl"), {"--clusters"}),
        (("kafka-mirror-maker", "--consumer.r"), {"--consumer.rebalance.listener"}),
    ],
)
def test_bash_offers_what_may_follow(script: Path, tmp_path: Path, words: tuple[str, ...], offered: set[str]) -> None:
    assert complete(script, *words, directory=tmp_path) == offered


def test_files_and_directories_are_offered_where_one_is_wanted(script: Path, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secure.properties").touch()
    both = {"secrets", "secure.properties"}
    assert complete(script, "sparkmirror", "status", "sec", directory=tmp_path) == both
    assert complete(script, "sparkmirror", "status", "--secrets-dir", "sec", directory=tmp_path) == {"secrets"}


def test_every_verb_and_option_is_offered(script: Path, tmp_path: Path) -> None:
    for command in (found for top in all_commands() for found in top.walk()):
        options = {name for option in command.options for name in option.names if name.startswith("--")}
        assert complete(script, *command.path, "--", directory=tmp_path) == options, command.path


@pytest.mark.parametrize("shell", [shell for shell in SHELLS if shell != "bash"])
def test_other_shells_read_their_script(tmp_path: Path, shell: str) -> None:
    executable = program(shell)
    path = tmp_path / "script"
    path.write_text(completion_script(all_parsers(), shell))
    subprocess.run([executable, "-n", path], check=True, timeout=30)


@pytest.mark.parametrize("shell", SHELLS)
def test_each_script_names_all_commands_and_verbs(shell: str) -> None:
    text = completion_script(all_parsers(), shell)
    names = {word for command in all_commands() for found in command.walk() for word in found.path}
    assert {name for name in names if name not in text} == set()


def test_the_reference_of_all_commands_is_what_the_parsers_say() -> None:
    hint = "write it again: python -m sparkmirror.cli.reference > docs/cli.md"
    assert (DOCS / "cli.md").read_text() == reference(all_commands()), hint


def test_every_command_has_words_about_it_and_each_of_its_arguments() -> None:
    for command in (found for top in all_commands() for found in top.walk()):
        assert command.description or command.commands or command.path[-1] == "demo", command.path
        assert [one.names for one in command.arguments if not one.about] == [], json.dumps(command.path)
