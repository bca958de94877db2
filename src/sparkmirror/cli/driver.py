"""The main program of a driver's pod, which Spark's cluster mode made: `sparkmirror run` with the pod's settings.

The image has it as /opt/sparkmirror/driver.py. The image's entry point runs that file; Spark's own would run it by
`PythonRunner`, whose JVM the mirror then uses (PYSPARK_GATEWAY_PORT).
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sparkmirror.cli.main import main as run_verb
from sparkmirror.config.formats.properties import read_properties
from sparkmirror.errors import EnvironmentProblem
from sparkmirror.shown import show_lines

_DIRECTORY, _ADDRESS = "SPARK_CONF_DIR", "SPARK_DRIVER_BIND_ADDRESS"
"""Environment variables that Spark 4.3 gives the driver's pod."""
_FILE = "spark.properties"
_MASTER = "spark.master"
_OF_THE_CLIENT = (_MASTER, "spark.submit.deployMode")
"""Said in other words, or of no use in the pod: there the driver is in client mode."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs FILE with the options of `sparkmirror run`, and gives its exit status. Entry point."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        return run_verb([*run_words(words, read_settings(os.environ))])
    except EnvironmentProblem as problem:
        print(show_lines(f"sparkmirror: {problem}"), file=sys.stderr)
        return problem.exit_status


def read_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings that Spark's client wrote into the config map of this pod. Raises EnvironmentProblem without."""
    path = Path(environment.get(_DIRECTORY, "/opt/spark/conf"), _FILE)
    if not path.is_file():
        hint = "`sparkmirror submit FILE --deploy-mode cluster` makes such a pod; elsewhere use `sparkmirror run`."
        raise EnvironmentProblem(f"This is no driver's pod of Spark: {path} is missing.", hint)
    settings = {key: entry.value for key, entry in read_properties(path).entries.items()}
    address = environment.get(_ADDRESS)
    return {**settings, **({"spark.driver.bindAddress": address} if address else {})}


def run_words(arguments: Sequence[str], settings: Mapping[str, str]) -> list[str]:
    """The arguments of `sparkmirror`."""
    own = [f"--conf={key}={value}" for key, value in settings.items() if key not in _OF_THE_CLIENT]
    return ["run", *arguments, f"--master={settings[_MASTER]}", *own]
