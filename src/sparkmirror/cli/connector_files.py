"""Several files in the place of FILE: `sparkmirror run worker.properties source.json checkpoint.json`.

MirrorMaker 2 on Kafka Connect is up to three connectors and a worker, each in a file of its own. Called by `cli.main`.
"""

from collections.abc import Sequence


def take_more_files(words: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """The words of a command line with one file where several of connectors stood, and the files behind it.

    Other files that stand beside each other are left to the verb.
    """
    first = next((at for at in range(len(words) - 1) if _begins(words, at)), None)
    if first is None:
        return list(words), ()
    end = first + 1
    while end < len(words) and _is_file(words[end]):
        end += 1
    return [*words[: first + 1], *words[end:]], tuple(words[first + 1 : end])


def _begins(words: Sequence[str], at: int) -> bool:
    """Whether the files of connectors begin here: not with what may be the value of an option."""
    if not (_is_file(words[at]) and _is_file(words[at + 1])):
        return False

    from sparkmirror.config.formats.files import is_connector_file

    if at and words[at - 1].startswith("-"):
        return is_connector_file(words[at])
    return is_connector_file(words[at]) or is_connector_file(words[at + 1])


def _is_file(word: str) -> bool:
    """By its name: one that cannot be read is to be told of as a file."""
    return word.endswith((".json", ".yaml", ".yml", ".properties")) and not word.startswith("-")
