"""Makes a class-data archive of Spark's JVM in the user's cache, which makes starts seconds faster.

Made once per Java and Spark by running a tiny streaming query (AppCDS, JEP 350); its directory's name carries what it
is valid for. `python -m sparkmirror.spark.warm_start` makes it ahead of time. Called by `spark.session`.
"""

import hashlib
import logging
import os
import re
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from sparkmirror.cache import cache_directory, publish_once, run_filler
from sparkmirror.errors import EnvironmentProblem
from sparkmirror.java import find_java

log = logging.getLogger(__name__)

_ARCHIVE = "classes.jsa"
_COMMAND = "java-command"
_HOME = "{home}"
_MAIN_CLASS = "org.apache.spark.deploy.SparkSubmit"
_LEFT_OUT = ("-Xmx", "--add-modules=jdk.incubator.vector")
"""The heap is chosen elsewhere; vectors are of Spark's MLlib alone, and 0.03 s of a start."""
_LAUNCHER_SECONDS_MAX = 30
_PLAIN, _REST = "jars-of-runs", "jars-beside"
_BESIDE = (
    "HikariCP", "JLargeArrays", "JTransforms", "algebra", "arpack", "blas", "breeze", "cats-kernel", "datanucleus",
    "derby", "hive-", "javax.jdo", "jdo-api", "jjwt", "jline", "kubernetes-", "lapack", "libfb303", "libthrift",
    "rocksdbjni", "scala-compiler", "spark-connect", "spark-graphx", "spark-hive", "spark-kubernetes", "spark-mllib",
    "spark-pipelines", "spark-repl", "spark-yarn", "spire", "vertx-", "volcano-", "zjsonpatch",
)  # fmt: skip
"""Jars, by the beginnings of their names, of what only expressions and functions of a user's can ask for: MLlib and its
mathematics, GraphX, Hive, state stores; and of other ways to run Spark. Spark asks each jar for extensions of its
sessions: MLlib's starts Scala's reflection, a fifth of what the JVM does until the first record."""


def archive_options() -> list[str]:
    """JVM options that use the archive, which is made now if this Java and Spark have none yet (some 20 s)."""
    directory = _archive_directory()
    if not directory.is_dir():
        log.info("Preparing Spark's class archive, once for this Java and Spark; this takes some 20 seconds.")
    try:
        archive = publish_once(directory, _make) / _ARCHIVE
    except (OSError, subprocess.SubprocessError) as problem:
        log.warning("Spark's class archive could not be made, so starts are slower: %s", problem)
        return []
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", *_IN_PLACE, *_QUIET]


def has_archive() -> bool:
    """Whether `archive_options` finds an archive, and takes no time."""
    return _archive_directory().is_dir()


def _archive_directory() -> Path:
    return cache_directory() / "spark" / f"classes-{_key()}"


def spark_home() -> Path | None:
    """A view of PySpark's own SPARK_HOME without its pyspark.zip; None where no cache can be written.

    Spark puts that archive first on its Python workers' path, and each worker would compile PySpark again from it
    (zipimport keeps no bytecode); without it they import the installed package. Measured: a quarter of a start.
    """
    with suppress(OSError):
        return publish_once(cache_directory() / "spark" / f"home-{_key()}", _link_home)
    return None


def _link_home(directory: Path) -> None:
    installed = installed_pyspark()
    for part in ("bin", "jars", "sbin", "data"):
        if (installed / part).exists():
            (directory / part).symlink_to(installed / part)
    libraries = directory / "python" / "lib"
    libraries.mkdir(parents=True)
    for library in (installed / "python" / "lib").glob("py4j-*.zip"):
        (libraries / library.name).symlink_to(library)
    for part in (_PLAIN, _REST):
        (directory / part).mkdir()
    for jar in sorted((installed / "jars").glob("*.jar")):
        (directory / (_REST if jar.name.startswith(_BESIDE) else _PLAIN) / jar.name).symlink_to(jar)
    with suppress(OSError, subprocess.SubprocessError, StopIteration, ValueError):
        (directory / _COMMAND).write_text("\n".join(_ask_launcher(directory)))


def _ask_launcher(home: Path) -> list[str]:
    """The class path of Spark's JVM, and the options that it cannot do without, by Spark's launcher. Raises OSError,
    SubprocessError, StopIteration and ValueError where the launcher says something else than is known."""
    core = next((home / "jars").glob("spark-core_*.jar"))
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": core.name.split("_")[1].split("-")[0]}
    launcher = [str(find_java()), "-Xmx128m", "-cp", f"{home}/jars/*", "org.apache.spark.launcher.Main"]
    said = subprocess.run(
        [*launcher, _MAIN_CLASS, "pyspark-shell"],
        env=environment, capture_output=True, text=True, timeout=_LAUNCHER_SECONDS_MAX, check=True,
    ).stdout  # fmt: skip
    words = said.replace(str(home), _HOME).strip("\0\n").split("\0")
    options = words[words.index("-cp") + 2 : words.index(_MAIN_CLASS)]
    return [words[words.index("-cp") + 1], *(option for option in options if not option.startswith(_LEFT_OUT))]


def launcher_words(home: Path) -> list[str]:
    """The class path and the options with which Spark's launcher starts its JVM; empty where they are not known."""
    with suppress(OSError):
        return (home / _COMMAND).read_text().replace(_HOME, str(home)).splitlines()
    return []


def class_path(home: Path, *, has_all: bool) -> str:
    """The jars of a JVM through which runs pass; `has_all` adds all others of Spark, which the class archive allows
    behind those that it was made with."""
    first = next((home / _PLAIN).glob("slf4j-api-*.jar"), None)  # as Spark's launcher has it: another jar has an older
    jars = [*([str(first)] if first else []), f"{home}/{_PLAIN}/*"]
    return os.pathsep.join([*jars, *([f"{home}/{_REST}/*"] if has_all else [])])


_IN_PLACE = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
"""Maps the archive at the address that it was made for. At another, as Java 17.0.15 does by default, the JVM rewrites
its pointers at the start, and 75 MB that the system could drop and read again become the process's own."""
_QUIET = ("-Xlog:disable", "-Xlog:all=off")


def _key() -> str:
    java, installed = find_java().resolve(), installed_pyspark()
    version = re.search(r"__version__.*?['\"](.+)['\"]", (installed / "version.py").read_text())
    marks = f"3 {version and version[1]} {installed} {java} {java.stat().st_mtime_ns}"
    return hashlib.sha256(marks.encode()).hexdigest()[:16]


def installed_pyspark() -> Path:
    """Where PySpark is; importing it would take as long as Java takes to start."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EnvironmentProblem("PySpark is not installed here.", "`pip install sparkmirror` brings it")
    return Path(spec.origin).parent


def _make(directory: Path) -> None:
    """Run the query in a JVM of its own, which writes the archive as it ends."""
    last = run_filler([sys.executable, "-m", "sparkmirror.spark.warm_up", str(directory / _ARCHIVE)])
    if not (directory / _ARCHIVE).is_file():
        raise OSError(last or "it wrote none")


if __name__ == "__main__":
    archive_options()
    # Kernels, compiled once into the user's cache: those of runs, and those of records that pass Spark one by one.
    import sparkmirror.batch.json_members
    import sparkmirror.batch.lz4_blocks
    import sparkmirror.batch.picking  # noqa: F401
