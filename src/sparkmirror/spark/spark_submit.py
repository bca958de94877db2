"""Runs Spark's own `spark-submit`, whose client makes the driver's pod, its service and its config map on Kubernetes.

Called by `cli.cluster_mode`. Spark's client copies its configuration directory, and all settings of
`spark-defaults.conf` in it, into a config map. So it gets an empty directory here, and no Hadoop configuration.
"""

import os
import re
import subprocess
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from sparkmirror.errors import SparkMirrorError
from sparkmirror.java import find_java
from sparkmirror.spark.driver_pod import DriverPod
from sparkmirror.spark.warm_start import installed_pyspark

_LEFT_OUT: Final = ("SPARK_HOME", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
_KEPT_LINES: Final = 200
_REASON_CHARACTERS: Final = 300
_FAILED: Final = re.compile(r"(?:Exception in thread \"main\" |Caused by: )?[\w.$]+(?:Exception|Error): (?P<reason>.+)")

_ENDED: Final = re.compile(r"\s*exit code: (\d+)")


def submit_driver(pod: DriverPod, directory: Path, hear: Callable[[str], None] | None = None) -> int:
    """Has Spark's client make the pod; `directory` is for the files that the client reads, and `hear` gets its lines.

    Gives the exit status of a driver for whose end the client waited, else 0. Raises EnvironmentProblem without a
    usable Java, and SparkMirrorError with the client's reason.
    """
    find_java()
    files = _write_templates(pod.templates, directory)
    home = installed_pyspark()
    settings = directory / "conf"
    settings.mkdir()
    environment = {key: value for key, value in os.environ.items() if key not in _LEFT_OUT}
    environment |= {"SPARK_HOME": str(home), "SPARK_CONF_DIR": str(settings)}
    command = [str(home / "bin" / "spark-submit"), *pod.words(files)]
    lines: deque[str] = deque(maxlen=_KEPT_LINES)
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", env=environment, cwd=directory,
    ) as client:  # fmt: skip
        assert client.stdout is not None
        for line in client.stdout:
            lines.append(line.rstrip().expandtabs())
            if hear is not None:
                hear(lines[-1])
    if client.returncode:
        hint = "Run again with --debug to see all that it said."
        raise SparkMirrorError(f"Spark's client could not make the driver's pod: {failure_reason(lines)}", hint)
    return exit_status(lines)


def _write_templates(templates: Mapping[str, str], directory: Path) -> dict[str, str]:
    files = {}
    for key, text in templates.items():
        path = directory / template_name(key)
        path.write_text(text)
        files[key] = str(path)
    return files


def template_name(key: str) -> str:
    """The name of a template's file, `driver.yaml`, by the setting that names it."""
    return f"{key.split('.')[-2]}.yaml"


def exit_status(lines: Iterable[str]) -> int:
    """The driver's, which Spark's client writes and does not end with; 0 where it writes none."""
    return next((int(found[1]) for line in lines if (found := _ENDED.fullmatch(line))), 0)


def failure_reason(lines: Iterable[str]) -> str:
    """The message of the exception that ended Spark's client, or its last line."""
    said = [line for line in lines if line.strip()]
    reasons = [found["reason"] for line in said if (found := _FAILED.match(line.strip()))]
    return (reasons or said or ["it said nothing"])[-1][:_REASON_CHARACTERS]
