"""The jars: pinned sums, and readable refusals. A stand-in for Java plays Ivy; the network is never asked."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sparkmirror import java
from sparkmirror.errors import EnvironmentProblem
from sparkmirror.testing import jars

CLASSIFIER = "{http://ant.apache.org/ivy/maven}classifier"
# Plays `java -version` and `java -jar ivy… -retrieve <directory>/[artifact]…`; counts the attempts of the latter.
FAKE_JAVA = """#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "17.0.1"' >&2; exit 0; fi
echo attempt >> "$FAKE_ATTEMPTS"
while [ $# -gt 0 ]; do [ "$1" = -retrieve ] && directory=${2%%/\\[*}; shift; done
if [ "$(wc -l < "$FAKE_ATTEMPTS")" -le "$FAKE_FAILURES" ]; then
    echo ':: resolving dependencies ::'
    echo 'Server access error at url (java.net.UnknownHostException)'
    exit 1
fi
printf "$FAKE_CONTENT" > "$directory/tool-1.0.jar"
"""


@pytest.fixture
def jar_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[jars.JarSet]:
    """A set of one jar whose pinned content is `good`, an empty cache, and the stand-in for Java."""
    sums = {"tool-1.0.jar": hashlib.sha256(b"good").hexdigest()}
    monkeypatch.setattr(jars.JarSet, "sums", property(lambda self: sums))
    monkeypatch.setattr(jars, "PAUSE_SECONDS", 0.0)
    executable = tmp_path / "java" / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(FAKE_JAVA)
    executable.chmod(0o755)
    for name, value in {
        "JAVA_HOME": str(tmp_path / "java"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "FAKE_ATTEMPTS": str(tmp_path / "attempts"),
        "FAKE_FAILURES": "0",
        "FAKE_CONTENT": "good",
    }.items():
        monkeypatch.setenv(name, value)
    jars.fetch.cache_clear()
    yield jars.JarSet("tool", "tool", "org.example", "1.0")
    jars.fetch.cache_clear()
    java._release.cache_clear()


def attempts(tmp_path: Path) -> int:
    return len((tmp_path / "attempts").read_text().splitlines())


def test_jars_are_downloaded_once(jar_set: jars.JarSet, tmp_path: Path) -> None:
    directory = jars.fetch(jar_set)
    jars.fetch.cache_clear()
    assert jars.fetch(jar_set) == directory == tmp_path / "cache" / "sparkmirror" / "jars" / "tool-1.0"
    assert (directory / "tool-1.0.jar").read_text() == "good"
    assert attempts(tmp_path) == 1


def test_a_network_that_fails_twice_is_tried_a_third_time(
    jar_set: jars.JarSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_FAILURES", "2")
    assert (jars.fetch(jar_set) / "tool-1.0.jar").exists()
    assert attempts(tmp_path) == 3


def test_no_network_is_reported_in_ivys_words_with_a_way_out(
    jar_set: jars.JarSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_FAILURES", "99")
    with pytest.raises(
        EnvironmentProblem, match=r"^org\.example:tool:1\.0 could not be downloaded in 3 attempts"
    ) as caught:
        jars.fetch(jar_set)
    assert "UnknownHostException" in str(caught.value)
    assert "resolving dependencies" not in str(caught.value)
    assert jars.IVY_SETTINGS in caught.value.hint
    assert not (tmp_path / "cache" / "sparkmirror" / "jars" / "tool-1.0").exists()


def test_a_jar_that_is_not_the_pinned_one_is_not_kept(
    jar_set: jars.JarSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CONTENT", "evil")
    with pytest.raises(EnvironmentProblem, match="differ from the pinned SHA-256 sums") as caught:
        jars.fetch(jar_set)
    assert hashlib.sha256(b"evil").hexdigest() in str(caught.value)
    assert not (tmp_path / "cache" / "sparkmirror" / "jars" / "tool-1.0").exists()


def test_a_jar_damaged_in_the_cache_is_noticed(jar_set: jars.JarSet) -> None:
    directory = jars.fetch(jar_set)
    (directory / "tool-1.0.jar").write_text("damaged")
    (directory / "stray.jar").touch()
    jars.fetch.cache_clear()
    with pytest.raises(EnvironmentProblem, match=r"(?s)stray\.jar.*tool-1\.0\.jar") as caught:
        jars.fetch(jar_set)
    assert f"delete {directory}" in caught.value.hint


@pytest.mark.parametrize("real_set", [jars.KAFKA, jars.MIRROR_MAKER, jars.MIRROR_MAKER_TESTS], ids=lambda one: one.name)
def test_the_committed_sums_pin_the_artifact_and_its_client(real_set: jars.JarSet) -> None:
    sums = real_set.sums
    assert {f"{real_set.artifact}-4.3.0.jar", "kafka-clients-4.3.0.jar"} <= sums.keys()
    assert all(len(digest) == 64 and int(digest, 16) >= 0 for digest in sums.values())


def test_each_jar_that_an_ivy_file_asks_for_is_pinned() -> None:
    tree = ElementTree.parse(jars.MIRROR_MAKER_TESTS.ivy_file)
    wanted = {
        "-".join(filter(None, [artifact.get("name"), module.get("rev"), artifact.get(CLASSIFIER)])) + ".jar"
        for module in tree.iter("dependency")
        for artifact in (module.findall("artifact") or [module])
    }
    assert {"connect-mirror-4.3.0-test.jar", "connect-mirror-client-4.3.0-test.jar"} <= wanted
    assert wanted - jars.MIRROR_MAKER_TESTS.sums.keys() == set()


def test_a_set_with_an_ivy_file_is_asked_for_by_it() -> None:
    command = list(jars._ivy_command(jars.MIRROR_MAKER_TESTS, Path("jars"), Path("cache")))
    assert command[command.index("-ivy") + 1] == str(jars.MIRROR_MAKER_TESTS.ivy_file)
    assert "-dependency" not in command
    assert "-ivy" not in jars._ivy_command(jars.KAFKA, Path("jars"), Path("cache"))


def test_kafkas_class_path_has_one_slf4j_and_a_back_end_for_it() -> None:
    names = [Path(entry).name for entry in jars.class_path(jars.KAFKA).split(":")]
    assert [name.split("-")[2].split(".")[0] for name in names if name.startswith("slf4j-api-")] == ["2"]
    assert any(name.startswith("log4j-slf4j2-impl-") for name in names)
    assert len({name.rsplit("-", 1)[0] for name in names}) == len(names)
