"""The clusters of a benchmark: embedded brokers with the JVM settings of kafka-server-start.sh. Called by `bench.plan`.

The embedded brokers' own options make tests start fast (C1 only, serial collector); under load they would be the limit.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from confluent_kafka.admin import AdminClient

from bench.workloads import LINK
from sparkmirror.kafka.admin import Admin
from sparkmirror.kafka.clients import open_admin
from sparkmirror.model import Cluster
from sparkmirror.testing.jars import KAFKA
from sparkmirror.testing.kafka import KafkaCluster

# kafka-run-class.sh, KAFKA_JVM_PERFORMANCE_OPTS, which connect-mirror-maker.sh takes too.
JVM_OPTIONS = (
    "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true",
)  # fmt: skip
HEAP_MB = 1024
_CONFIG = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    # A deleted topic gives its disk space back soon.
    "log.segment.delete.delay.ms": "1000",
    # A log that is to be compacted is looked at soon.
    "log.cleaner.backoff.ms": "500",
}


@contextmanager
def bench_cluster(
    name: str,
    brokers: int = 1,
    *,
    tls: bool = False,
    version: str = KAFKA.version,
    config: Mapping[str, str] | None = None,
) -> Iterator[KafkaCluster]:
    """An embedded cluster whose brokers run as Kafka's own script runs them, with a heap of 1 GB (512 MB if three);
    `config` is for all of them."""
    heap_mb = HEAP_MB if brokers == 1 else HEAP_MB // 2
    with KafkaCluster(
        brokers, name=name, version=version, config={**_CONFIG, **(config or {})}, tls=tls, far=LINK, heap_mb=heap_mb
    ) as cluster:
        for broker in cluster.brokers:
            # Nothing is lost yet, and the last of three would wait for a majority before it stops cleanly.
            broker.kill()
            broker.program = replace(broker.program, options=(f"-Xms{heap_mb}m", *JVM_OPTIONS))
        for broker in cluster.brokers:
            broker.launch()
        cluster.wait_ready()
        yield cluster


def admin_of(cluster: KafkaCluster) -> Admin:
    """The cluster's control plane, for the benchmark itself."""
    return open_admin(Cluster(cluster.name, {"bootstrap.servers": cluster.bootstrap_servers}), "bench")


def delete_topics(cluster: KafkaCluster, is_unwanted: Callable[[str], bool]) -> None:
    """Delete the topics whose names are unwanted, and wait until the brokers have agreed. Kafka's own are kept."""
    client = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    names = [name for name in client.list_topics(timeout=30).topics if is_unwanted(name) and not name.startswith("__")]
    for deleted in (client.delete_topics(names, operation_timeout=30) if names else {}).values():
        deleted.result()


def delete_traces(cluster: KafkaCluster, alias: str) -> None:
    """Remove what a run under the source alias `alias` left: mirrored topics and all mirrors' internal ones."""
    delete_topics(cluster, lambda name: name.startswith((f"{alias}.", "mm2-")))
