"""The part of the table of keys (`config/keys.py`) about the status page and the metrics: they are the whole file's."""

from typing import Any

from sparkmirror.config import types
from sparkmirror.config.key import Key, Scope

_NO_KEY = "no such key"

STATUS_LISTEN = Key(
    "status.listen",
    Scope.FILE,
    types.ADDRESS,
    types.NOWHERE,
    "Where a running mirror serves its status page, `/metrics` and `/healthz`, as in `localhost:8080`; nothing listens "
    "when not set. Any other address than loopback takes a `status.token`; see docs/web.md.",
    _NO_KEY,
)
STATUS_TOKEN = Key(
    "status.token",
    Scope.FILE,
    types.TOKEN,
    "",
    "What the status page asks for before it pauses or resumes anything, and before it shows anything to another "
    "machine. Without one the page only shows.",
    _NO_KEY,
)

STATUS_KEYS: tuple[Key[Any], ...] = (STATUS_LISTEN, STATUS_TOKEN)
