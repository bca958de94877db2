"""`sparkmirror completion bash|zsh`: a script by which a shell completes verbs, options and their values."""

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import add_verb

if TYPE_CHECKING:
    from sparkmirror.cli.tree import Argument, Command

_DESCRIPTION = (
    "Print a script that completes sparkmirror, connect-mirror-maker and kafka-mirror-maker. For bash: "
    "`source <(sparkmirror completion bash)`, in ~/.bashrc for example. For zsh: write it to a file `_sparkmirror` in "
    "a directory of $fpath."
)
_BASH_HEAD = """\
# Written by `sparkmirror completion bash`.
_sparkmirror() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at=${COMP_WORDS[0]##*/} word i words=
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case "$at $word" in
"""
_BASH_MIDDLE = """\
        esac
    done
    case "$at $prev" in
"""
_BASH_TAIL = """\
    esac
    # Nothing found is left to the shell, which completes files.
    [[ $words ]] && COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
"""


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = add_verb(verbs, "completion", "a script that completes commands in a shell", _DESCRIPTION, execute)
    parser.add_argument("shell", choices=("bash", "zsh"), help="the shell to write it for")


def execute(args: argparse.Namespace) -> int:
    """Prints the script."""
    from sparkmirror.cli.main import all_commands

    print({"bash": bash_script, "zsh": zsh_script}[args.shell](all_commands()), end="")
    return 0


def bash_script(commands: "Sequence[Command]") -> str:
    """For bash 4 and later, without the bash-completion package."""
    everything = [found for command in commands for found in command.walk()]
    below = [" ".join(found.path) for found in everything if len(found.path) > 1]
    lines = [_BASH_HEAD + f'            {"|".join(map(_quoted, below))}) at="$at $word" ;;\n' + _BASH_MIDDLE]
    for found in everything:
        lines += [line + "\n" for line in _bash_values(found)]
    lines.append('    esac\n    case "$at" in\n')
    for found in everything:
        lines += [line + "\n" for line in _bash_words(found)]
    names = " ".join(command.path[0] for command in commands)
    return "".join(lines) + _BASH_TAIL + f"complete -o bashdefault -o default -F _sparkmirror {names}\n"


def _bash_values(command: "Command") -> Iterator[str]:
    """What follows an option: one of its choices, a directory, a file, or what nobody can complete."""
    for option in (option for option in command.options if option.values):
        cases = "|".join(_quoted(" ".join((*command.path, name))) for name in option.names)
        if option.choices:
            yield f'        {cases}) COMPREPLY=($(compgen -W {_quoted(" ".join(option.choices))} -- "$cur")); return ;;'
        elif option.kind == "directory":
            yield f'        {cases}) compopt -o filenames; COMPREPLY=($(compgen -d -- "$cur")); return ;;'
        elif option.kind != "file":
            yield f"        {cases}) compopt +o default +o bashdefault; return ;;"


def _bash_words(command: "Command") -> Iterator[str]:
    options = " ".join(name for option in command.options for name in option.names)
    others = [below.path[-1] for below in command.commands]
    others += [choice for one in command.arguments if not one.is_option for choice in one.choices]
    name = _quoted(" ".join(command.path))
    words = f"[[ $cur == -* ]] && words={_quoted(options)} || words={_quoted(' '.join(others))}"
    yield f"        {name}) {words} ;;"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def zsh_script(commands: "Sequence[Command]") -> str:
    """A function for each command that has others below it, and one for each that has none."""
    names = " ".join(command.path[0] for command in commands)
    lines = [f"#compdef {names}", "# Written by `sparkmirror completion zsh`."]
    for command in (found for top in commands for found in top.walk()):
        lines += [f"{_function(command)}() {{", *_zsh_body(command), "}"]
    cases = [f"    {command.path[0]}) {_function(command)} ;;" for command in commands]
    return "\n".join([*lines, 'case "${service:-${words[1]:t}}" in', *cases, "esac"]) + "\n"


def _function(command: "Command") -> str:
    return "_" + "_".join(command.path).replace("-", "_")


def _zsh_body(command: "Command") -> Iterator[str]:
    specs = [spec for one in command.arguments for spec in _zsh_specs(one)]
    if not command.commands:
        yield "    _arguments -s " + " ".join(specs)
        return
    yield '    local curcontext="$curcontext" state line'
    yield "    local -a verbs"
    yield "    typeset -A opt_args"
    yield "    _arguments -C " + " ".join([*specs, "'1: :->verb'", "'*:: :->rest'"])
    verbs = " ".join(_quoted(f"{below.path[-1]}:{below.about}") for below in command.commands)
    yield "    case $state in"
    yield f"        verb) verbs=({verbs}); _describe command verbs ;;"
    yield "        rest) case $line[1] in"
    for below in command.commands:
        yield f"            {below.path[-1]}) {_function(below)} ;;"
    yield "        esac ;;"
    yield "    esac"


def _zsh_specs(one: "Argument") -> Iterator[str]:
    """`'--format[how to print]:value:(table json)'` for each name, or `'*:FILE:_files'`."""
    about = one.about
    for special in "\\[]:":
        about = about.replace(special, f"\\{special}")
    values = (
        f"({' '.join(one.choices)})" if one.choices else {"file": "_files", "directory": "_files -/"}.get(one.kind, "")
    )
    if not one.is_option:
        yield _quoted(f"*:{one.names[0].replace(':', ' ')}:{values}")
        return
    for name in one.names:
        word = one.values.replace(":", " ")
        yield _quoted(f"*{name}[{about}]" + (f":{word}:{values}" if one.values else ""))
