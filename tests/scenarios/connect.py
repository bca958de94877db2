"""A real Kafka Connect worker with MirrorMaker's own connectors, distributed or standalone."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

from tests.oracle import Client

from sparkmirror.testing.guard import Guard
from sparkmirror.testing.jars import MIRROR_MAKER, class_path
from sparkmirror.testing.ports import PortReservation
from sparkmirror.testing.process import JavaProcess, JavaProgram

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
SECONDS_MAX = 90.0
_CLASS = "org.apache.kafka.connect.cli.Connect"


class Worker:
    """`process` is to be launched; its connectors are put to it, or come with their files where it is standalone."""

    def __init__(self, directory: Path, settings: Mapping[str, str], guard: Guard, port: int, *files: Path) -> None:
        self.file = directory / "worker.properties"
        self.group = settings.get("group.id", "")
        self.file.write_text(as_properties({**settings, "listeners": f"http://127.0.0.1:{port}"}))
        self._address = f"http://127.0.0.1:{port}/connectors"
        main_class = f"{_CLASS}{'Standalone' if files else 'Distributed'}"
        arguments = [str(self.file), *map(str, files)]
        program = JavaProgram("Kafka Connect", main_class, class_path(MIRROR_MAKER), arguments)
        self.process = JavaProcess(program, directory / "connect.log", guard)
        self._ask = build_opener(ProxyHandler({})).open

    def start(self, connectors: Mapping[str, Mapping[str, str]]) -> None:
        """Launch it, and put the connectors to it, by their names."""
        self.process.launch()
        self.put(connectors)

    def put(self, connectors: Mapping[str, Mapping[str, str]]) -> None:
        """By their names."""
        for name, config in connectors.items():
            self.process.wait_until(lambda name=name, config=config: self._takes(name, config), "takes it", SECONDS_MAX)

    def delete(self, name: str) -> None:
        """The worker goes on without the connector."""
        self.process.wait_until(lambda: self._deletes(name), "deletes it", SECONDS_MAX)

    def _deletes(self, name: str) -> bool:
        order = Request(f"{self._address}/{quote(name, safe='')}", method="DELETE")
        try:
            with closing(self._ask(order, timeout=10)) as answer:
                return bool(answer.status == 204)
        except HTTPError as refused:
            if refused.code == 404:
                return True
        except (URLError, OSError):
            pass
        time.sleep(0.1)
        return False

    def _takes(self, name: str, config: Mapping[str, str]) -> bool:
        address = f"{self._address}/{quote(name, safe='')}/config"
        order = Request(address, json.dumps(config).encode(), {"Content-Type": "application/json"}, method="PUT")
        try:
            with closing(self._ask(order, timeout=10)) as answer:
                return bool(answer.status in (200, 201))
        except (URLError, OSError):
            time.sleep(0.1)
            return False


@contextmanager
def connect_worker(directory: Path, settings: Mapping[str, str], *files: Path) -> Iterator[Worker]:
    """A worker on a free port, gone when the block ends; standalone with the `files` of its connectors."""
    home = directory / "connect"
    home.mkdir()
    with PortReservation(1) as reservation, Guard(home) as guard:
        (port,) = reservation.ports
        yield Worker(home, settings, guard, port, *files)


def as_properties(settings: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def worker_settings(target: Client, name: str) -> dict[str, str]:
    """A distributed worker whose group and topics are called after `name`."""
    parts = {"config": "configs", "offset": "offsets", "status": "status"}
    storage = {f"{part}.storage.topic": f"{name}-{suffix}" for part, suffix in parts.items()}
    replicas = {f"{part}.storage.replication.factor": "1" for part in parts}
    converters = {f"{part}.converter": BYTES for part in ("key", "value", "header")}
    return {
        **target, **storage, **replicas, **converters, "group.id": name,
        "offset.flush.interval.ms": "1000", "plugin.discovery": "only_scan",
    }  # fmt: skip


def source_connector(source: Client, target: Client, alias: str, topics: str, to: str = "backup") -> dict[str, str]:
    """Without its name."""
    return {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector", "tasks.max": "2",
        **cluster_pair(source, target, alias, to), "topics": topics, "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1", "offset.lag.max": "0", "sync.topic.acls.enabled": "false",
    }  # fmt: skip


def cluster_pair(source: Client, target: Client, alias: str, to: str = "backup") -> dict[str, str]:
    """What all connectors of a flow are told."""
    return {
        "source.cluster.alias": alias, "target.cluster.alias": to,
        "source.cluster.bootstrap.servers": source["bootstrap.servers"],
        "target.cluster.bootstrap.servers": target["bootstrap.servers"],
    }  # fmt: skip
