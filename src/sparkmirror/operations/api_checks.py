"""What it means that a broker speaks these versions of Kafka's requests and no others; pure. For `cli.version`."""

from collections.abc import Iterator

from sparkmirror.kafka.api_needs import Versions, lacking
from sparkmirror.views.findings import Finding, Level


def judge_versions(alias: str, where: str, release: str, versions: Versions) -> Iterator[Finding]:
    """A finding for each request that is not spoken on both sides; one that all is well where there is none."""
    missing = lacking(versions)
    for need in missing:
        low, high = versions.get(need.key, (0, -1))
        theirs = f"in versions {low} to {high}" if high >= 0 else "not at all"
        said = f"Kafka {release} speaks {need.name} {theirs}, we in {need.ours[0]} to {need.ours[1]}"
        if need.without:
            yield Finding(Level.WARN, alias, where, f"{said}: {need.without}")
        else:
            yield Finding(Level.FAIL, alias, where, said, "brokers from Kafka 3.0 on are supported")
    if not missing:
        yield Finding(Level.OK, alias, where, f"Kafka {release} speaks all that is needed")
