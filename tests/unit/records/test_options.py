"""Options are those of Spark's Kafka connector where they mean the same; all others are refused by name."""

import pytest

from sparkmirror.batch.header import Codec
from sparkmirror.errors import ConfigError
from sparkmirror.kafka.answers import EARLIEST, LATEST
from sparkmirror.model import TopicPartition
from sparkmirror.records.offset_limits import AtOffsets, AtTimestamps, Everywhere
from sparkmirror.records.options import RECORDS, RUNS, Selection, check_names, read_options, write_options

BROKERS = {"kafka.bootstrap.servers": "b1:9092"}
ORDERS = {**BROKERS, "subscribe": "orders"}


def test_brokers_and_a_topic_are_enough_for_a_read() -> None:
    batch, stream = read_options(ORDERS, is_stream=False), read_options(ORDERS, is_stream=True)
    assert batch.settings.bootstrap_servers == ("b1:9092",)
    assert batch.topics == Selection(names=("orders",))
    assert (batch.starting, batch.ending) == (Everywhere(EARLIEST), Everywhere(LATEST))
    assert stream.starting == Everywhere(LATEST)
    assert (batch.read_committed, batch.fail_on_data_loss) == (False, True)


def test_the_cluster_may_be_named_as_in_a_client_s_file() -> None:
    options = read_options({"bootstrap.servers": "b2:1", "subscribe": "a, b"}, is_stream=False)
    assert options.settings.bootstrap_servers == ("b2:1",)
    assert options.topics.names == ("a", "b")


def test_topics_are_named_by_a_pattern_or_by_partitions() -> None:
    assert read_options({**BROKERS, "subscribepattern": "or.*"}, is_stream=True).topics == Selection(pattern="or.*")
    assigned = read_options({**BROKERS, "assign": '{"orders": [1, 0]}'}, is_stream=True).topics
    assert assigned.partitions == (TopicPartition("orders", 0), TopicPartition("orders", 1))


def test_limits_and_client_settings_are_read() -> None:
    given = {
        **ORDERS, "maxoffsetspertrigger": "7", "minpartitions": "3", "maxrecordsperpartition": "9",
        "failondataloss": "false", "kafka.isolation.level": "read_committed", "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": 'x.PlainLoginModule required username="u" password="secret";',
    }  # fmt: skip
    options = read_options(given, is_stream=True)
    assert (options.offsets_max, options.partitions_min, options.records_max) == (7, 3, 9)
    assert (options.read_committed, options.fail_on_data_loss) == (True, False)
    assert "secret" not in repr(options)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscribe": "orders"}, r"needs the option `kafka\.bootstrap\.servers`"),
        (BROKERS, "needs one of the options subscribe, subscribePattern and assign, and has none"),
        ({**ORDERS, "assign": '{"a": [0]}'}, "not subscribe and assign"),
        ({**ORDERS, "subscribr": "x"}, "has no option `subscribr`.*\n  hint: Options of a streaming read: .*subscribe"),
        ({**ORDERS, "endingoffsets": "latest"}, "`endingOffsets` of kafka-records has no meaning in a streaming read"),
        ({**ORDERS, "topic": "t"}, "`topic` of kafka-records has no meaning in a streaming read"),
        ({**ORDERS, "groupidprefix": "x"}, "no option `groupidprefix`. No consumer group takes part"),
        ({**ORDERS, "kafka.group.id": "x"}, "no option `kafka.group.id`. No consumer group"),
        ({**ORDERS, "kafka.max.poll.records": "5"}, r"`kafka\.max\.poll\.records` has no effect in a streaming read"),
        ({**ORDERS, "includeheaders": "false"}, "headers are always there"),
        ({**ORDERS, "kafka.isolation.level": "none"}, "neither read_uncommitted nor read_committed"),
        ({**ORDERS, "failondataloss": "perhaps"}, "failOnDataLoss=perhaps is neither true nor false"),
        ({**ORDERS, "maxoffsetspertrigger": "0"}, "maxOffsetsPerTrigger=0 is not a whole number from 1 on"),
        ({**BROKERS, "subscribepattern": "("}, r"subscribePattern=\( is no regular expression"),
        ({**BROKERS, "assign": '{"a": "0"}'}, "assign cannot be read"),
        ({**BROKERS, "subscribe": ","}, "names no topic"),
        ({**ORDERS, "kafka.bootstrap.servers": "b1"}, "is not of the form host:port"),
        ({**ORDERS, "config": "x"}, "belongs to the source `kafka-runs`"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_by_name(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_options(given, is_stream=True)


def test_a_batch_read_has_no_limit_for_triggers() -> None:
    with pytest.raises(ConfigError, match="`maxOffsetsPerTrigger` of kafka-records has no meaning in a batch read"):
        read_options({**ORDERS, "maxoffsetspertrigger": "5"}, is_stream=False)
    check_names({**ORDERS, "maxoffsetspertrigger": "5", "endingoffsets": "latest"})
    with pytest.raises(ConfigError, match="has no option `nothing`"):
        check_names({**ORDERS, "nothing": "5"})


def test_offsets_of_each_partition_are_read() -> None:
    options = read_options({**ORDERS, "startingoffsets": '{"orders": {"0": 23, "1": -2}}'}, is_stream=False)
    expected = {TopicPartition("orders", 0): 23, TopicPartition("orders", 1): EARLIEST}
    assert options.starting == AtOffsets("startingOffsets", expected)


def test_a_time_comes_before_times_and_times_before_offsets() -> None:
    given = {
        **ORDERS, "startingoffsets": "earliest", "startingoffsetsbytimestamp": '{"orders": {"0": 5}}',
        "startingoffsetsbytimestampstrategy": "latest", "endingtimestamp": "9", "endingoffsets": "latest",
    }  # fmt: skip
    options = read_options(given, is_stream=False)
    times = {TopicPartition("orders", 0): 5}
    assert options.starting == AtTimestamps("startingOffsetsByTimestamp", times, None, or_latest=True)
    assert options.ending == AtTimestamps("endingTimestamp", {}, 9, or_latest=True)
    options = read_options({**given, "startingtimestamp": "4"}, is_stream=False)
    assert options.starting == AtTimestamps("startingTimestamp", {}, 4, or_latest=True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"startingoffsets": "latest"}, "A batch read cannot begin at the latest offset"),
        ({"startingoffsets": '{"orders": {"0": -1}}'}, "A batch read cannot begin at the latest offset"),
        ({"endingoffsets": "earliest"}, "cannot end at the earliest offset"),
        ({"startingoffsets": "5"}, "startingOffsets=5 is neither `earliest` nor `latest` nor offsets"),
        ({"startingoffsets": '{"orders": {"0": -3}}'}, "startingOffsets: -3, for orders-0, is too low"),
        ({"startingoffsets": '{"orders": {"x": 1}}'}, "`x` is no number of a partition of orders"),
        ({"startingoffsets": '{"orders": [1]}'}, "startingOffsets cannot be read"),
        ({"startingtimestamp": "today"}, "startingTimestamp=today is not a number of milliseconds"),
        ({"startingoffsetsbytimestampstrategy": "x"}, "neither `error` nor `latest`"),
    ],
)
def test_limits_that_make_no_sense_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_options({**ORDERS, **given}, is_stream=False)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({**ORDERS, "includeheaders": "true"}, "kafka-runs has no option `includeheaders`. Headers are in the batches"),
        ({**ORDERS, "config": "x"}, "kafka-runs has no option `config`. It belongs to the streams of a mirror"),
        ({**ORDERS, "flow": "x"}, "has no option `flow`.*which have `config` and `flow`"),
        ({**ORDERS, "subscribr": "x"}, "kafka-runs has no option `subscribr`"),
        ({**ORDERS, "endingoffsets": "latest"}, "`endingOffsets` of kafka-runs has no meaning in a streaming read"),
        ({**ORDERS, "kafka.linger.ms": "5"}, r"`kafka\.linger\.ms` has no effect in a streaming read of kafka-runs"),
        (BROKERS, "kafka-runs needs one of the options subscribe"),
        ({"subscribe": "t"}, "kafka-runs needs the option `kafka.bootstrap.servers`"),
    ],
)
def test_batches_are_read_by_the_same_options_and_refuse_others_by_name(given: dict[str, str], said: str) -> None:
    assert read_options(ORDERS, is_stream=True, source=RUNS).source == RUNS
    with pytest.raises(ConfigError, match=said):
        read_options(given, is_stream=True, source=RUNS)


def test_batches_are_written_with_their_own_codec() -> None:
    assert write_options({**BROKERS, "topic": "t"}, is_stream=False, source=RUNS).source == RUNS
    with pytest.raises(ConfigError, match=r"kafka-runs has no option `kafka\.compression\.type`. Batches keep"):
        write_options({**BROKERS, "kafka.compression.type": "lz4"}, is_stream=False, source=RUNS)


def test_a_write_has_a_topic_and_a_codec() -> None:
    options = write_options({**BROKERS, "topic": "t", "kafka.compression.type": "lz4"}, is_stream=False)
    assert (options.topic, options.codec, options.delivery_seconds) == ("t", Codec.LZ4, 120.0)
    sink = {**BROKERS, "checkpointlocation": "/c", "queryname": "q", "kafka.delivery.timeout.ms": "5000"}
    assert write_options(sink, is_stream=True).delivery_seconds == 5.0


@pytest.mark.parametrize("source", [RECORDS, RUNS])
def test_a_write_is_transactional_where_its_tasks_have_ids(source: str) -> None:
    assert not write_options(BROKERS, is_stream=True, source=source).transactional_id
    given = {**BROKERS, "kafka.transactional.id": " sums ", "kafka.transaction.timeout.ms": "900000"}
    options = write_options(given, is_stream=True, source=source)
    assert (options.transactional_id, options.transaction_timeout_ms) == ("sums", 900_000)
    with pytest.raises(ConfigError, match=r"`kafka\.transactional\.id` has no effect in a batch read"):
        read_options({**ORDERS, "kafka.transactional.id": "sums"}, is_stream=False, source=source)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"transactional": "true"}, "no option `transactional`. Use kafka.transactional.id, the prefix"),
        ({"kafka.acks": "1"}, "all replicas in sync acknowledge each write"),
        ({"kafka.enable.idempotence": "false"}, "every write is idempotent"),
        ({"kafka.compression.type": "brotli"}, "is not supported.*\n.*none, gzip, snappy, lz4, zstd"),
        ({"subscribe": "t"}, "`subscribe` of kafka-records has no meaning in a batch write"),
        ({"checkpointlocation": "/c"}, "has no option `checkpointlocation`"),
        ({"kafka.linger.ms": "5"}, r"`kafka\.linger\.ms` has no effect in a batch write"),
    ],
)
def test_what_a_write_cannot_do_is_refused_by_name(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        write_options({**BROKERS, **given}, is_stream=False)
