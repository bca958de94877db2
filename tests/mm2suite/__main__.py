"""Runs MirrorMaker 2's own integration tests against this project and keeps what came of them in docs/parity.md.

    python -m tests.mm2suite                                             # all 109, two hours or more
    python -m tests.mm2suite IdentityReplicationIntegrationTest          # a class
    python -m tests.mm2suite DedicatedMirrorIntegrationTest.testMultiNodeCluster

`make parity` runs it. The tests are MirrorMaker's class files as they were published. In the place of two other classes
stand ours, in java/: MirrorMaker itself, and the Connect cluster with its workers; each starts processes of this
project with a properties file. The exit status is 1 when a test failed.
"""

import argparse
import signal
import sys
import tempfile
from itertools import groupby
from pathlib import Path

from tests.mm2suite.build import test_jars
from tests.mm2suite.methods import FILE, integration_tests, read_jars
from tests.mm2suite.results import Outcome, read_results, write_results
from tests.mm2suite.run import PATIENCE_MAX, run_tests

from sparkmirror.errors import SparkMirrorError

PAGE = Path(__file__).parents[2] / "docs" / "parity.md"


def main() -> int:
    """A Java process for each class; the page is written after each test."""
    given = _arguments()
    if given.methods:
        FILE.write_text("\n".join([*read_jars(test_jars()), ""]))
        return 0
    known = FILE.read_text().splitlines()
    if read_jars(test_jars()) != known:
        raise SparkMirrorError(
            f"{FILE} does not name the tests that MirrorMaker's jars have; --methods writes it again."
        )
    directory = Path(tempfile.mkdtemp(prefix="sparkmirror-mm2suite-"))
    print(f"logs: {directory}", flush=True)
    chosen = _chosen(integration_tests(known), given.tests, given.untried)
    outcomes = [
        _run_class(list(tests), given.patience, directory / name)
        for name, tests in groupby(chosen, lambda test: test.partition(".")[0])
    ]
    return int(not all(outcomes))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mm2suite", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tests", nargs="*", metavar="Class[.method]", help="default: all")
    parser.add_argument("--untried", action="store_true", help="only those without a result on the page")
    parser.add_argument(
        "--patience", type=int, choices=range(1, PATIENCE_MAX + 1), default=PATIENCE_MAX,
        help="what the tests' time limits are multiplied by (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--methods", action="store_true", help=f"write {FILE.name} from MirrorMaker's jars, and end")
    return parser.parse_args()


def _chosen(tests: list[str], names: list[str], untried: bool) -> list[str]:
    tried = read_results(PAGE.read_text()) if untried else {}
    chosen = [test for test in tests if not names or test in names or test.partition(".")[0] in names]
    if unknown := set(names) - set(tests) - {test.partition(".")[0] for test in tests}:
        raise SparkMirrorError(f"MirrorMaker 2 has no test {', '.join(sorted(unknown))}. {FILE} has all names.")
    return [test for test in chosen if test not in tried]


def _run_class(tests: list[str], patience: int, directory: Path) -> bool:
    directory.mkdir()
    missing, failed = set(tests), False
    for result in run_tests(tests, patience, directory):
        print(f"{result.outcome:8} {result.test} ({result.seconds} s) {result.said}", flush=True)
        missing.discard(result.test)
        failed |= result.outcome is Outcome.FAILED
        page = PAGE.read_text()
        PAGE.write_text(write_results(page, {**read_results(page), result.test: result}, _all_tests()))
    for test in sorted(missing):
        print(f"no result of {test}; see {directory / 'java.log'}", flush=True)
    return not failed and not missing


def _all_tests() -> list[str]:
    return integration_tests(FILE.read_text().splitlines())


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the tests' processes are ended with this one
    try:
        raise SystemExit(main())
    except SparkMirrorError as problem:
        raise SystemExit(f"sparkmirror: {problem}") from None
