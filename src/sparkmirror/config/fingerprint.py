"""Makes a short text of what a file says of a flow, by which processes see whether their files agree. For
`sharing.group`."""

import hashlib
from pathlib import Path

from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.config.precedence import flow_layers
from sparkmirror.config.secrets import is_secret
from sparkmirror.model import FlowName

_LETTERS = 12


def fingerprint(text: str, flow: FlowName) -> str:
    """The fingerprint of the lines that count for the flow, in any order and spelling.

    Secrets are left out (invariant 10): files that differ in a password alone agree.
    """
    layers = flow_layers(parse_properties(text, "the file"), flow)
    lines = sorted(
        f"{number} {name}={entry.value.strip()}"
        for number, layer in enumerate((layers.connector, layers.worker, layers.consumer, layers.producer))
        for name, entry in layer.items()
        if not is_secret(name)
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:_LETTERS]


def changed_ms(*files: str) -> int:
    """The time at which one of the files was changed last (ms since 1970); 0 for a path that is no file."""
    return max(map(_changed_ms, files), default=0)


def _changed_ms(file: str) -> int:
    try:
        return round(Path(file).stat().st_mtime * 1000)
    except OSError:
        return 0
