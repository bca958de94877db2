"""What a broker speaks, judged: what is needed to mirror at all, and what costs a feature."""

from kafka.protocol.broker_version_data import BrokerVersionData

from sparkmirror.operations.cluster_checks import API_NEEDS, judge_versions, lacking
from sparkmirror.views.findings import Level


def speaks(release: tuple[int, ...]) -> dict[int, tuple[int, int]]:
    return {int(key): tuple(versions) for key, versions in BrokerVersionData(release).api_versions.items()}


def test_brokers_of_every_supported_release_speak_all_that_is_needed() -> None:
    for release in ((3, 0), (3, 5), (3, 9), (4, 0)):
        assert lacking(speaks(release)) == [], release


def test_a_broker_that_is_too_old_fails_with_the_request_and_both_sides_versions() -> None:
    said = list(judge_versions("A", "broker 1", "2.4", speaks((2, 4))))
    assert said[0].level is Level.FAIL
    assert "Kafka 2.4 speaks Produce in versions 0 to 8, we in 9 to 13" in [one.said for one in said]


def test_what_costs_only_a_feature_is_a_warning_that_names_it() -> None:
    versions = {need.key: need.ours for need in API_NEEDS if need.name != "DescribeTransactions"}
    (said,) = judge_versions("A", "broker 1", "4.3", versions)
    assert said.level is Level.WARN
    assert said.said.endswith("not at all, we in 0 to 0: a time-out looks like a take-over, with exactly-once")
    (well,) = judge_versions("A", "broker 1", "4.3", {need.key: need.ours for need in API_NEEDS})
    assert well.level is Level.OK
