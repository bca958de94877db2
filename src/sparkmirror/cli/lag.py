"""`sparkmirror lag FILE --group G`: how far a consumer group is behind, by the offsets it has committed."""

import argparse
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from sparkmirror.cli.file import add_cluster, add_jars, add_topic_pattern, add_verb, check_cluster
from sparkmirror.cli.output import add_format, add_watch, show, show_again, tell_unknown
from sparkmirror.errors import ConfigError, SparkMirrorError
from sparkmirror.model import Cluster, TopicPartition

if TYPE_CHECKING:
    from sparkmirror.config.flow.flows import FlowConfig
    from sparkmirror.kafka.admin import Admin
    from sparkmirror.views.group_lag import PartitionLag

_DESCRIPTION = (
    "Print group, topic, partition, offset, log size and lag, as Kafka's ConsumerOffsetChecker did. With --topic, "
    "partitions without a committed offset are listed too."
)


def add_parser(verbs: Any) -> None:
    """Adds the verb to argparse's subparsers."""
    parser = add_verb(verbs, "lag", "how far a consumer group is behind", _DESCRIPTION, execute)
    parser.add_argument("file", metavar="FILE", help="a MirrorMaker 2 file, or MirrorMaker 1's consumer.config")
    parser.add_argument("--group", metavar="G", help="the group (default: group.id of a consumer.config)")
    add_topic_pattern(parser)
    add_cluster(parser, "all of the file")
    add_jars(parser)
    add_watch(parser)
    add_format(parser)


def execute(args: argparse.Namespace) -> int:
    """Asks the clusters and prints. Raises ConfigError, ClusterError, and SparkMirrorError for an unknown group."""
    chosen = _clusters([args.file, *args.more_files], args.jars, args.cluster, args.group)
    return show_again(args, lambda: _print(args, *chosen))


def _print(args: argparse.Namespace, clusters: list[Cluster], group: str, flows: "Collection[FlowConfig]") -> None:
    from sparkmirror.views.group_lag import render_lags

    lags = [lag for cluster in clusters for lag in _ask(cluster, group, args.topic, flows)]
    if all(lag.offset is None for lag in lags):
        names = ", ".join(cluster.alias for cluster in clusters)
        about = f" for topics that match `{args.topic}`" if args.topic else ""
        raise SparkMirrorError(f"Group {group} has committed no offsets{about} on {names}.", "Is its name right?")
    show(args, [lag.as_json() for lag in lags], lambda: render_lags(lags))


def _clusters(
    files: Sequence[str], jars: Sequence[str], alias: str | None, group: str | None
) -> "tuple[list[Cluster], str, Collection[FlowConfig]]":
    """The clusters to ask, the group, and the flows that keep offsets."""
    from sparkmirror.config.flow.flows import parse_config
    from sparkmirror.config.formats.files import read_mirror_files
    from sparkmirror.config.formats.mm1 import load_consumer
    from sparkmirror.config.plugins import with_jars

    properties, file = read_mirror_files(files), files[0]
    entries = properties.entries
    if "clusters" not in entries and ("bootstrap.servers" in entries or "zookeeper.connect" in entries):
        cluster, group_id = load_consumer(file)
        return [cluster], group or group_id, ()
    if not group:
        raise ConfigError("--group is missing", "name the consumer group: `--group G`", file=file)
    config = parse_config(with_jars(properties, jars))
    if alias is not None:
        check_cluster(config, alias)
    keeping = [flow for flow in config.flows if flow.preserves_offsets]
    return [cluster for name, cluster in config.clusters.items() if alias in (None, name)], group, keeping


def _ask(cluster: Cluster, group: str, topic: str, flows: "Collection[FlowConfig]") -> "list[PartitionLag]":
    from sparkmirror.kafka.clients import open_admin
    from sparkmirror.kafka.groups import read_group_offsets
    from sparkmirror.policy.filters import name_matcher
    from sparkmirror.views.group_lag import list_lags

    is_chosen = name_matcher(topic)
    with open_admin(cluster, "lag") as admin:
        stored = read_group_offsets(admin, group)
        offsets = {where: one.offset for where, one in stored.items() if is_chosen(where.topic)}
        partitions = set(offsets)
        if topic:
            partitions |= {
                TopicPartition(name, number)
                for name, found in admin.list_topics().items()
                if is_chosen(name)
                for number in range(found.partitions)
            }
        ends = admin.latest_offsets(partitions)
        identical: dict[TopicPartition, bool | None] = {}
        for flow in flows:
            if flow.name.target == cluster.alias:
                identical |= _identical(flow, admin)
    tell_unknown(ends)
    return list_lags(cluster.alias, group, offsets, ends.known, ends.unknown, identical)


def _identical(flow: "FlowConfig", target: "Admin") -> dict[TopicPartition, bool | None]:
    """The target's partitions whose offsets are the source's, with None for those of which that is not known; none
    where the flow has never run."""
    from sparkmirror.operations.cluster_pair import kept_offsets

    if not target.list_topics([flow.ledger_topics.positions]):
        return {}
    kept = kept_offsets(flow, target).identical
    return {
        TopicPartition(flow.remote_topic(where.topic), where.partition): kept.of(where)
        for where in kept.partitions | kept.unknown.keys()
    }
