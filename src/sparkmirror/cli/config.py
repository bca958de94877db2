"""`sparkmirror config check|explain|convert FILE`: what is wrong with a file, what it says, and its other form.

Only reads arguments and prints; the work is that of `config/flow/flows.py`, `config/explain.py` and
`config/formats/convert.py`.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import add_input_arguments, add_verb
from sparkmirror.cli.output import add_format, answer, say, show, working
from sparkmirror.cli.run import add_settings, plan_for
from sparkmirror.errors import ConfigError

if TYPE_CHECKING:
    from sparkmirror.config.explain import Setting
    from sparkmirror.config.flow.flows import MirrorConfig
    from sparkmirror.config.formats.properties import ConfigWarning, Properties
    from sparkmirror.config.keys.key import Key, Unused

_CHECK = (
    "Read a file and print every problem with its line and what to do. No cluster is asked. Exit status: 0 when the "
    "file can be used, warnings or not; 2 when it cannot, and with --strict also where there are warnings."
)
_EXPLAIN = (
    "Print what counts for each flow and the line it comes from. With KEY (`topics`, or as written: `A->B.topics`) "
    "print what the key means, its value for each flow, and the lines that do not count."
)
_CONVERT = (
    "Print a file in its other form: MirrorMaker 2 properties, or Strimzi KafkaMirrorMaker2 resources, one for each "
    "target. What cannot be said there, and which secrets to create, goes to stderr."
)


_NEXT = {
    "error": "correct it; docs/keys.md describes each key",
    "warning": "correct or remove the line, or leave it: the file can be used as it is",
    "note": "nothing need be done",
}
"""What to do about a finding whose own sentence says it, or says what is right."""


def add_parser(verbs: Any) -> None:
    """Adds the verb with its sub-verbs to argparse's subparsers."""
    parser = verbs.add_parser("config", help="check, explain or convert a file", description="Understand a file.")
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    check = add_verb(actions, "check", "print all problems of a file", _CHECK, execute_check)
    add_input_arguments(check)
    check.add_argument("--strict", action="store_true", help="end with status 2 where there are warnings, too")
    add_format(check)
    add_settings(check)
    explain = add_verb(actions, "explain", "print what counts for each flow", _EXPLAIN, execute_explain)
    add_input_arguments(explain)
    add_format(explain)
    explain.add_argument("--changed", action="store_true", help="only what the file sets, no defaults")
    explain.add_argument("key", metavar="KEY", nargs="?", help="one key only")
    convert = add_verb(actions, "convert", "print the same as properties or Strimzi", _CONVERT, execute_convert)
    add_input_arguments(convert)
    convert.add_argument("--to", choices=("properties", "strimzi"), required=True, help="the form to print")


def execute_check(args: argparse.Namespace) -> int:
    """Prints errors and warnings; 2 with errors. Raises ConfigError when the file cannot be read at all and findings
    are not asked for as JSON."""
    from sparkmirror.cli.file import read_input

    try:
        properties = read_input(args)
    except ConfigError as error:
        if args.format != "json":
            raise
        found = _finding("error", error, _without_place(error))
        show(args, {"file": error.file, "flows": [], "findings": [found]}, list)
        return error.exit_status
    return _check(args, properties)


def _check(args: argparse.Namespace, properties: "Properties") -> int:
    from sparkmirror.config.explain import notes_on
    from sparkmirror.config.flow.flows import examine
    from sparkmirror.config.flow.security import check_stores
    from sparkmirror.config.formats.properties import ConfigWarning

    config, problems = examine(properties)
    check_stores(config.lines, [flow.name for flow in config.flows], problems)
    if not problems.errors:
        problems.errors += _refused_transforms(args, config)
    notes = list(notes_on(config.flows))
    errors = sorted(problems.errors, key=lambda error: error.line)
    findings = [
        *(_finding("error", error, _without_place(error)) for error in errors),
        *(_finding("warning", warning, warning.message) for warning in config.warned),
        *(_finding("note", ConfigWarning(note, file=config.file), note) for note in notes),
    ]
    flows = [str(flow.name) for flow in config.flows]
    found = {"file": config.file, "flows": flows, "findings": findings}
    lines = [
        *(f"error: {error}" for error in errors),
        *(f"warning: {text}" for text in config.warnings),
        *(f"note: {text}" for text in notes),
    ]
    show(args, found, lambda: [*lines, _verdict(config, len(errors))])
    is_refused = errors or (args.strict and config.warnings)
    return ConfigError.exit_status if is_refused else 0


def _refused_transforms(args: argparse.Namespace, config: "MirrorConfig") -> list[ConfigError]:
    """The steps that Spark refuses. Spark is started only for a file that has any."""
    changing = [flow for flow in config.flows if flow.transforms.steps]
    if not changing:
        return []
    from sparkmirror.logs.handlers import log_to_stderr
    from sparkmirror.spark.transform_check import check_transforms

    log_to_stderr()
    here = plan_for(config, None, args.conf) if args.conf else None
    with working("asking Spark about the transforms"):
        return check_transforms(changing, here, debug=args.debug)


def _finding(severity: str, found: "ConfigError | ConfigWarning", message: str) -> dict[str, Any]:
    where = {"file": found.file, "line": found.line, "key": found.key}
    return {"severity": severity, **where, "message": message, "hint": found.hint or _NEXT[severity]}


def _without_place(error: ConfigError) -> str:
    where = ":".join(part for part in (error.file, str(error.line or "")) if part)
    return str(error.args[0]).removeprefix(f"{where}: ")


def _verdict(config: "MirrorConfig", errors: int) -> str:
    if errors:
        return f"{config.file} cannot be used: {errors} {'error' if errors == 1 else 'errors'}"
    return f"{config.file} can be used; {config.purpose}"


def execute_convert(args: argparse.Namespace) -> int:
    """Prints the other form. Raises ConfigError for a file that cannot be used."""
    from sparkmirror.cli.file import read_input
    from sparkmirror.config.flow.flows import parse_config
    from sparkmirror.config.formats.convert import to_properties, to_strimzi
    from sparkmirror.config.formats.tidy import tidy
    from sparkmirror.config.reading import Problems

    properties = read_input(args)
    config = parse_config(properties)
    properties = tidy(properties, Problems(properties.file))
    text, notes = to_properties(properties, config) if args.to == "properties" else to_strimzi(properties, config)
    for note in notes:
        say(f"note: {note}")
    print(text, end="")
    return 0


def execute_explain(args: argparse.Namespace) -> int:
    """Prints the effective configuration. Raises ConfigError for a file that cannot be used and for an unknown key."""
    from sparkmirror.cli.file import read_input
    from sparkmirror.config.explain import explain_all
    from sparkmirror.config.flow.flows import parse_config, understand
    from sparkmirror.config.reading import Problems

    properties = read_input(args)
    config = parse_config(properties)
    properties = understand(properties, Problems(properties.file))
    aliases = tuple(config.clusters)
    everything = explain_all(properties, config.flows, aliases)
    if args.changed:
        everything = {name: [one for one in listed if one.entry is not None] for name, listed in everything.items()}
    if args.key is None:
        _print_settings(properties, everything, args.format)
    else:
        _explain_key(properties, everything, aliases, args.key, args.format)
    return 0


def _explain_key(
    properties: "Properties", everything: dict[str, list["Setting"]], aliases: Sequence[str], text: str, how: str
) -> None:
    from sparkmirror.config.explain import keys_named
    from sparkmirror.config.keys.table import KEYS
    from sparkmirror.config.spelling import RENAMED, did_you_mean

    used, unused = keys_named(text, aliases)
    if not used and not unused:
        hint = RENAMED.get(text) or did_you_mean(text, [key.name for key in KEYS])
        raise ConfigError(f"`{text}` is not a key that SparkMirror or MirrorMaker knows", hint)
    chosen = {name: [item for item in settings if item.key in used] for name, settings in everything.items()}
    chosen = {name: settings for name, settings in chosen.items() if settings}
    if how == "table":
        answer("\n".join([*_meanings(used), *_reasons(unused)]) + ("\n" if chosen else ""))
    _print_settings(properties, chosen, how)


def _meanings(used: Iterable["Key[Any]"]) -> Iterable[str]:
    from sparkmirror.config.explain import default_text

    for key in used:
        yield f"{key.name} ({key.type.label}; default {default_text(key) or 'empty'}): {key.doc}"
        yield f"  written as {key.scope.places(key.name)}"
        yield f"  MirrorMaker 2: {key.mirrormaker or 'the same'}"


def _reasons(unused: Iterable["Unused"]) -> Iterable[str]:
    return dict.fromkeys(f"{key.name} has no effect: {key.reason}" for key in unused)


def _print_settings(properties: "Properties", settings: dict[str, list["Setting"]], how: str) -> None:
    if how == "json":
        print(json.dumps({name: [item.as_json() for item in listed] for name, listed in settings.items()}, indent=2))
        return
    for name, listed in settings.items():
        answer(name)
        width = max((len(item.name) for item in listed), default=0)
        for part in dict.fromkeys(item.part for item in listed):
            answer(f"  {part}")
            for item in listed:
                if item.part == part:
                    answer(
                        f"    {item.name.ljust(width)} = {item.value}  ({_origin(properties.file, item)}{_used(item)})"
                    )


def _used(item: "Setting") -> str:
    return f"; {item.used} is used" if item.used else ""


def _origin(file: str, item: "Setting") -> str:
    if item.entry is None:
        return "default"
    beaten = "".join(f"; not {entry.key} on line {entry.line}" for entry in item.beaten)
    return f"{item.entry.key}, {item.entry.file or file}:{item.entry.line}{beaten}"
