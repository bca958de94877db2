"""Examples of output in docs/ are what a test has seen: `check` compares, and writes them with WRITE_EXAMPLES=1.

An example is a fenced block behind a line `<!-- example: NAME -->`.
"""

import os
import re
from pathlib import Path

_DOCS = Path(__file__).parents[1] / "docs"


def check(page: str, name: str, output: str) -> None:
    """`output`, but for ages, moments, ports and measured figures, must be the example `name` of docs/`page`."""
    file = _DOCS / page
    text = file.read_text()
    mark = f"<!-- example: {name} -->\n\n```\n"
    start = text.index(mark) + len(mark)
    end = text.index("```\n", start)
    if os.environ.get("WRITE_EXAMPLES"):
        file.write_text(text[:start] + output.rstrip("\n") + "\n" + text[end:])
    else:
        assert _lasting(output) == _lasting(text[start:end]), f"docs/{page} shows another {name}:\n{output}"


def _lasting(text: str) -> str:
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", "AT", text)
    text = re.sub(r"\b\d+(\.\d)? (s|min) ago", "AGO", text)
    text = re.sub(r"in \d+ ms|[\d.]+ s (ahead of|behind)|[\d.]+ [kMGT]B|\(\d+%\)", "FIGURE", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "BROKER", text)
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())
