"""Kafka's own jars, by Maven coordinates, checked against committed hashes. Called by `kafka`, parity tests and bench.

The Ivy that PySpark ships resolves them, from the repositories of its settings. `python -m sparkmirror.testing.jars`
fetches all sets ahead of time.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path

from sparkmirror.cache import cache_directory, publish_once
from sparkmirror.errors import EnvironmentProblem
from sparkmirror.java import find_java
from sparkmirror.testing.download import showing_download

ATTEMPTS = 3
PAUSE_SECONDS = 2.0
RESOLVE_SECONDS_MAX = 600
IVY_SETTINGS = "SPARKMIRROR_IVY_SETTINGS"
"""Environment variable: an Ivy settings file, for networks that reach Maven artifacts only through a mirror of the
repository."""
LOGGING_JARS = ("slf4j-api-*.jar", "log4j-slf4j2-impl-*.jar", "log4j-api-*.jar", "log4j-core-*.jar")


@dataclass(frozen=True, slots=True)
class JarSet:
    """One artifact with all it needs at run time; its committed list of sums is named `<name>-<version>.sha256`.

    With an Ivy file `<name>-<version>.xml` beside it the set is what that file depends on: Ivy's command line knows
    one artifact, without a classifier.
    """

    name: str
    artifact: str
    organisation: str = "org.apache.kafka"
    version: str = "4.3.0"
    size_bytes: int = 45_000_000
    """About what is downloaded, for a progress bar."""

    @property
    def sums(self) -> Mapping[str, str]:
        """File name to SHA-256 (hexadecimal), for the whole closure."""
        lines = Path(__file__).with_name(f"{self.name}-{self.version}.sha256").read_text().splitlines()
        return {name: digest for digest, name in (line.split() for line in lines)}

    @property
    def ivy_file(self) -> Path:
        """The set's Ivy file, which most sets do not have."""
        return Path(__file__).with_name(f"{self.name}-{self.version}.xml")

    def __str__(self) -> str:
        return f"{self.organisation}:{self.artifact}:{self.version}"


KAFKA = JarSet("kafka", "kafka_2.13")
MIRROR_MAKER = JarSet("mirror-maker", "connect-mirror", size_bytes=34_600_000)
MIRROR_MAKER_TESTS = JarSet("mirror-maker-tests", "connect-mirror", size_bytes=73_000_000)
"""MirrorMaker 2's own tests and what they need; only `make parity` fetches them."""

SPARK_CONNECTOR = JarSet(
    "spark-connector", "spark-sql-kafka-0-10_2.13", "org.apache.spark", "4.2.0", size_bytes=11_000_000
)
"""Spark's own Kafka connector; only `bench.records_source` fetches it. Of Spark 4.3 there is none yet."""

H2 = JarSet("h2", "h2", "com.h2database", "2.5.252", size_bytes=2_700_000)
"""A database with a server and a JDBC driver, in one jar: tests look tables of it up."""


def kafka_of(version: str) -> JarSet:
    """The jars of another release, such as `3.9.1`. Raises EnvironmentProblem for a release without committed
    hashes."""
    jar_set = JarSet("kafka", "kafka_2.13", version=version)
    known = sorted(file.stem.removeprefix("kafka-") for file in Path(__file__).parent.glob("kafka-*.sha256"))
    if version not in known:
        raise EnvironmentProblem(f"{jar_set} has no committed sums here.", f"known releases: {', '.join(known)}")
    return jar_set


@lru_cache
def fetch(jar_set: JarSet) -> Path:
    """The directory of the set's jars in the user's cache. Jars that are missing are downloaded, and each jar's hash
    is checked. Raises EnvironmentProblem without Java or network, and when a jar is not the pinned one."""
    directory = cache_directory() / "jars" / f"{jar_set.name}-{jar_set.version}"
    publish_once(directory, partial(_download, jar_set))
    _check(jar_set, directory, f"delete {directory} to have it downloaded again")
    return directory


def class_path(jar_set: JarSet) -> str:
    """A class path for `java -cp`: the set's jars, and in front of them Log4j as SLF4J's back end.

    Kafka's closure has no back end (a Kafka distribution adds it), so its brokers would log nothing; PySpark has one.
    """
    jars = [*_logging_jars(), *(jar for jar in sorted(fetch(jar_set).iterdir()) if not _is_logging(jar))]
    return os.pathsep.join(map(str, jars))


def _logging_jars() -> list[Path]:
    # Copied, because the class-data archive is tied to the jars' paths and should outlive a virtual environment.
    jars = [next(_pyspark_jars().glob(pattern)) for pattern in LOGGING_JARS]
    key = hashlib.sha256("".join(jar.name for jar in jars).encode()).hexdigest()[:12]

    def copy(scratch: Path) -> None:
        for jar in jars:
            shutil.copyfile(jar, scratch / jar.name)

    return sorted(publish_once(cache_directory() / "jars" / f"logging-{key}", copy).iterdir())


def _is_logging(jar: Path) -> bool:
    return any(jar.match(pattern) for pattern in LOGGING_JARS)


def _pyspark_jars() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EnvironmentProblem("PySpark is not installed here.", "run `make setup`, or `pip install sparkmirror`")
    return Path(spec.origin).parent / "jars"


def _download(jar_set: JarSet, directory: Path) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="sparkmirror-ivy-") as ivy_cache,
        showing_download(f"the jars of {jar_set}", Path(ivy_cache), jar_set.size_bytes),
    ):
        for attempt in range(1, ATTEMPTS + 1):
            problem = _resolve(jar_set, directory, Path(ivy_cache))
            if not problem:
                break
            if attempt < ATTEMPTS:
                time.sleep(PAUSE_SECONDS)
        else:
            raise EnvironmentProblem(
                f"{jar_set} could not be downloaded in {ATTEMPTS} attempts. Ivy said:\n{problem}",
                f"check the network and try again; behind a proxy set JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=…, "
                f"with a mirror of Maven artifacts set {IVY_SETTINGS} to an Ivy settings file",
            )
    _check(jar_set, directory, "somebody changed what is downloaded: do not use it, compare with a copy you trust")


def _resolve(jar_set: JarSet, directory: Path, ivy_cache: Path) -> str:
    """Runs Ivy once; returns its complaint, empty when it succeeded."""
    try:
        done = subprocess.run(
            list(_ivy_command(jar_set, directory, ivy_cache)),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=RESOLVE_SECONDS_MAX, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"(nothing for {RESOLVE_SECONDS_MAX} s)"
    return "" if done.returncode == 0 else "\n".join(_complaints(done.stdout))


def _ivy_command(jar_set: JarSet, directory: Path, ivy_cache: Path) -> Iterator[str]:
    yield from (str(find_java()), "-jar", str(next(_pyspark_jars().glob("ivy-*.jar"))), "-cache", str(ivy_cache))
    if settings := os.environ.get(IVY_SETTINGS):
        yield from ("-settings", settings)
    if jar_set.ivy_file.exists():
        yield from ("-ivy", str(jar_set.ivy_file))
    else:
        yield from ("-dependency", jar_set.organisation, jar_set.artifact, jar_set.version)
    yield from ("-retrieve", f"{directory}/[artifact]-[revision](-[classifier]).[ext]")
    yield from ("-types", "jar", "bundle", "-m2compatible")


def _complaints(output: str) -> list[str]:
    lines = [line.strip() for line in output.splitlines()]
    problems = [line for line in lines if "error" in line.lower() or "not found" in line or "Exception" in line]
    return list(dict.fromkeys(problems))[:8] or lines[-8:]


def _check(jar_set: JarSet, directory: Path, hint: str) -> None:
    found = {jar.name: _sha256(jar) for jar in directory.glob("*.jar")}
    wanted = jar_set.sums
    if found == wanted:
        return
    wrong = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
    lines = "\n".join(f"  {name}: {found.get(name, 'missing')}, pinned: {wanted.get(name, 'none')}" for name in wrong)
    raise EnvironmentProblem(f"Jars of {jar_set} in {directory} differ from the pinned SHA-256 sums:\n{lines}", hint)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> None:
    """Fetches every set and prints its directory."""
    for jar_set in (KAFKA, MIRROR_MAKER, H2):
        print(f"{jar_set}: {fetch(jar_set)}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except EnvironmentProblem as problem:
        raise SystemExit(f"sparkmirror: {problem}") from None
