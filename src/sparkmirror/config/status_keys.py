"""The part of the table of keys (`config/keys.py`) on what a running mirror shows and says: the whole file's."""

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
LOG_FORMAT = Key(
    "log.format",
    Scope.FILE,
    types.choice("text", "json"),
    "text",
    "How a running mirror writes what happens to its error output: sentences, or a JSON object a line with `time`, "
    "`level`, `flow`, `topic`, `partition`, `event` and `message`. `--log-format` counts more; see docs/logs.md.",
    "log4j",
)

STATUS_KEYS: tuple[Key[Any], ...] = (STATUS_LISTEN, STATUS_TOKEN, LOG_FORMAT)
