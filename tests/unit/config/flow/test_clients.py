"""What the bulk clients are told of a cluster."""

from sparkmirror.config.flow.settings import ConsumerSettings, ProducerSettings
from sparkmirror.kafka.settings import client_settings
from sparkmirror.model import Cluster

CLUSTER = Cluster("A", {"bootstrap.servers": "a:1", "security.protocol": "PLAINTEXT"})


def test_brokers_see_the_client_id_of_the_file_before_the_role() -> None:
    """Quotas go by it."""
    settings = client_settings(ConsumerSettings(client_id="east", request_timeout_ms=7000).reach(CLUSTER), "reader")
    assert (settings.client_id, settings.request_timeout_seconds) == ("east-reader", 7.0)
    assert settings.bootstrap_servers == ("a:1",)


def test_without_one_they_see_ours() -> None:
    assert client_settings(ProducerSettings().reach(CLUSTER), "writer").client_id == "sparkmirror-writer"


def test_reader_and_writer_look_leaders_up_as_often_as_the_file_says() -> None:
    """Also with 0, which Kafka's clients take."""
    reader = client_settings(ConsumerSettings(metadata_max_age_ms=20_000).reach(CLUSTER), "reader")
    writer = client_settings(ProducerSettings(metadata_max_age_ms=0).reach(CLUSTER), "writer")
    assert (reader.metadata_age_seconds_max, writer.metadata_age_seconds_max) == (20.0, 0.001)
