"""The version that an upgrade is tested from is never the one that it is tested to."""

import subprocess
from pathlib import Path

import pytest
from tests.former import former_version


def git(root: Path, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)


def commit(root: Path, text: str, *tags: str) -> None:
    (root / "src").mkdir(exist_ok=True)
    (root / "src" / "program.py").write_text(text)
    git(root, "add", "-A")
    git(root, "commit", "--allow-empty", "-m", text)
    for tag in tags:
        git(root, "tag", tag)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, "one", "oldest")
    commit(tmp_path, "two")
    return tmp_path


def test_without_a_release_the_first_commit_stands_for_one(root: Path) -> None:
    assert former_version(root, "oldest") == "oldest"


def test_a_tag_on_this_commit_is_this_version(root: Path) -> None:
    git(root, "tag", "v0.1.0")
    assert former_version(root, "oldest") == "oldest"
    commit(root, "two")  # something beside the program changes
    assert former_version(root, "oldest") == "oldest"


def test_the_newest_release_with_another_program_is_taken(root: Path) -> None:
    git(root, "tag", "v0.9.0")
    commit(root, "three", "v0.10.0")
    assert former_version(root, "oldest") == "v0.9.0"
    (root / "src" / "program.py").write_text("four, not yet committed")
    assert former_version(root, "oldest") == "v0.10.0"


def test_nothing_to_upgrade_from_is_no_silent_success(root: Path) -> None:
    commit(root, "one")
    with pytest.raises(LookupError, match="nothing to upgrade from"):
        former_version(root, "oldest")
