"""Whether a token could be guessed: pure. Called by `config.types`.

Nobody can measure how a text came about; what is refused here are examples, words in a row, runs and repetitions.
"""

import re
from math import log2
from typing import Final

_BITS_MIN: Final = 32.0
"""Sixteen random hexadecimal digits have 53 by this measure; of 300,000 tries ten had less than 34."""
_ECHO_LENGTH: Final = 3
_EXAMPLES: Final = re.compile(
    r"change.?(me|this|it)|replace.?(me|this|it)|example|pass.?word|your.?(token|secret)|qwert|letmein|insecure"
)


def token_problem(token: str) -> str:
    """Why `token` is none to trust, as the end of a sentence; empty when nothing is seen."""
    if _EXAMPLES.search(token.lower()):
        return "is an example, or a word that is tried first"
    if _surprise_bits(token) < _BITS_MIN:
        return "could be guessed: it repeats itself, or counts up"
    return ""


def _surprise_bits(token: str) -> float:
    """Each sign that does not follow from those before it counts by how many different ones there are."""
    surprising = sum(not _is_expected(token, at) for at in range(len(token)))
    return surprising * log2(max(len(set(token)), 1))


def _is_expected(token: str, at: int) -> bool:
    """Whether a run goes on, up or down or in place, or a piece is there a second time."""
    if at >= 2:
        step = ord(token[at]) - ord(token[at - 1])
        if abs(step) <= 1 and step == ord(token[at - 1]) - ord(token[at - 2]):
            return True
    return at >= _ECHO_LENGTH and token[at - _ECHO_LENGTH + 1 : at + 1] in token[:at]
