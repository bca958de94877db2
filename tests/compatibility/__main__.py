"""Tells the story of `pair` for each pair of releases, and keeps what came of it in docs/compatibility.md.

    python -m tests.compatibility                        # all pairs
    python -m tests.compatibility 3.0.0:4.3.0 4.3.0:3.0.0

`make compatibility` runs it. The exit status is 1 when something was wrong with a pair.
"""

import argparse
import tempfile
import time
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

from tests.compatibility.page import Outcome, read_page, render
from tests.compatibility.pair import RELEASES, try_pair

from sparkmirror.errors import SparkMirrorError
from sparkmirror.testing.jars import fetch, kafka_of

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"


def main() -> int:
    """Each pair with two fresh clusters; the page is written after each."""
    parser = argparse.ArgumentParser(prog="python -m tests.compatibility", description=__doc__)
    parser.add_argument("pairs", nargs="*", metavar="SOURCE:TARGET", help="releases (default: each with each)")
    pairs = [tuple(pair.split(":")) for pair in parser.parse_args().pairs] or list(product(RELEASES, repeat=2))
    wrong = 0
    for source, target in pairs:
        outcome = _try(source, target)
        known = read_page(PAGE.read_text()) if PAGE.exists() else []
        kept = [one for one in known if (one.source, one.target) != (source, target)]
        PAGE.write_text(render([*kept, outcome]))
        print(f"{source} -> {target}: {outcome.problem or 'passed'} in {outcome.seconds} s", flush=True)
        wrong += bool(outcome.problem)
    return int(wrong > 0)


def _try(source: str, target: str) -> Outcome:
    """Jars are fetched first: how long that takes says nothing."""
    for release in (source, target):
        fetch(kafka_of(release))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sparkmirror-pair-") as directory:
        problem = try_pair(source, target, Path(directory))
    day = datetime.now(UTC).date().isoformat()
    return Outcome(source, target, problem, round(time.monotonic() - began), day)


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except SparkMirrorError as problem:
        raise SystemExit(f"sparkmirror: {problem}") from None
