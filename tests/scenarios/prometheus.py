"""A real Prometheus that scrapes a mirror's page every second and evaluates our alert rules."""

import http.client
import json
import subprocess
import urllib.parse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.programs import program

from sparkmirror.testing.ports import PortReservation

RULES = Path(__file__).parents[2] / "deploy/prometheus/alerts.yml"


def get(port: int, path: str) -> str:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read().decode()
        assert answer.status == 200, body
        return body


def alerts(port: int) -> set[str]:
    """The alerts that are pending or firing."""
    told = json.loads(get(port, "/api/v1/alerts"))
    return {str(one["labels"]["alertname"]) for one in told["data"]["alerts"]}


def scraped(port: int, expression: str) -> list[float]:
    """What Prometheus answers to an expression."""
    try:
        told = json.loads(get(port, "/api/v1/query?" + urllib.parse.urlencode({"query": expression})))
    except (OSError, AssertionError):
        return []
    return [float(one["value"][1]) for one in told["data"]["result"]]


@contextmanager
def prometheus(directory: Path, mirror_port: int) -> Iterator[int]:
    """Scrapes the mirror every second, with our rules; gives its port."""
    settings: dict[str, Any] = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [{"job_name": "mirror", "static_configs": [{"targets": [f"127.0.0.1:{mirror_port}"]}]}],
    }
    file = directory / "prometheus.json"
    file.write_text(json.dumps(settings))  # JSON is YAML
    with PortReservation(1) as reserved:
        (port,) = reserved.ports
        log = (directory / "prometheus.log").open("wb")
        child = subprocess.Popen(
            [
                program("prometheus"), f"--config.file={file}", f"--storage.tsdb.path={directory / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
            ],
            stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield port
        finally:
            child.terminate()
            child.wait(60)
            log.close()
