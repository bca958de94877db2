"""Two versions in one group share a flow, one process at a time is upgraded and taken back, and nothing is lost.

The former version is `tests/former.py`'s, and the tests' names say which. It runs from an environment of its own, with
this one's dependencies.
"""

import subprocess
from pathlib import Path

import pytest
from tests.faults.numbered import NumberedWriter
from tests.faults.sharing import tasks_of, wait_until_shared
from tests.faults.story import REPEATED_MAX, Story
from tests.faults.tree import Run
from tests.former import former_version
from tests.installed import install

ROOT = Path(__file__).parents[2]
_JOIN_SECONDS_MAX = 120
ONCE = "backup.exactly.once.source.support = enabled"


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The command of the former version."""
    directory, version = tmp_path_factory.mktemp("former"), str(request.param)
    archive = subprocess.run(["git", "archive", version], cwd=ROOT, capture_output=True)
    assert archive.returncode == 0, f"history lacks {version}, fetch it first: git fetch --unshallow --tags"
    tree = directory / "tree"
    tree.mkdir()
    subprocess.run(["tar", "-x"], cwd=tree, input=archive.stdout, check=True)
    return install(tree, directory / "env") / "sparkmirror"


def wait_until_alone(story: Story, run: Run, writer: NumberedWriter) -> None:
    run.wait_until(lambda: tasks_of(run) == {0, 1}, "it goes on for the one that left", _JOIN_SECONDS_MAX)
    story.wait_until_passed(run, writer.produced)


@pytest.mark.long
@pytest.mark.parametrize("former", [former_version()], indirect=True, ids="from-{}".format)
@pytest.mark.parametrize("promise", [(), (ONCE,)], ids=["at-least-once", "exactly-once"])
def test_processes_are_upgraded_one_by_one_and_taken_back(story: Story, former: Path, promise: tuple[str, ...]) -> None:
    """A writer goes on all the time. The last upgraded process is killed: it is taken back after a crash, too."""
    with (
        story.writer() as writer,
        story.run(lines=promise, command=former) as old,
        story.run(lines=promise, command=former) as second_old,
    ):
        wait_until_shared(old, second_old)
        story.wait_until_close(old, writer)
        second_old.stop(30)
        with story.run(lines=promise) as new:
            wait_until_shared(old, new)
            story.wait_until_passed(new, writer.produced)
            old.stop(30)
            wait_until_alone(story, new, writer)
            with story.run(lines=promise) as second_new:
                wait_until_shared(new, second_new)
                story.wait_until_passed(second_new, writer.produced)
                second_new.stop(30)
                wait_until_alone(story, new, writer)
            with story.run(lines=promise, command=former) as old_again:
                wait_until_shared(new, old_again)
                story.wait_until_close(old_again, writer)
                new.kill()
                wait_until_alone(story, old_again, writer)
                story.wait_for_all(old_again, writer)
                old_again.stop(30)
    arrival = story.arrival()
    arrival.assert_complete(writer.produced)
    assert arrival.repeats() <= (0 if promise else REPEATED_MAX), "one process was killed, all others were stopped"
