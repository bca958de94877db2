"""MirrorMaker 1's command line: its options, and sentences for what cannot be carried out."""

import sys
import types
from pathlib import Path

import pytest

from sparkmirror import __version__
from sparkmirror.cli.main import mirror_maker_1
from sparkmirror.config.flow.flows import MirrorConfig
from sparkmirror.runtime.options import RunOptions


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    consumer, producer = tmp_path / "consumer.config", tmp_path / "producer.config"
    consumer.write_text("bootstrap.servers=a:1\ngroup.id=g\nsession.timeout.ms=1\n")
    producer.write_text("bootstrap.servers=b:1\n")
    return ["--consumer.config", str(consumer), "--producer.config", str(producer)]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[MirrorConfig, RunOptions]]:
    """Puts a list in the engine's place, which notes what it is given."""
    runs: list[tuple[MirrorConfig, RunOptions]] = []
    module = types.ModuleType("sparkmirror.runtime.start")
    module.run_mirror = lambda config, options: runs.append((config, options)) or 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sparkmirror.runtime.start", module)
    return runs


def test_the_command_of_the_manual_runs(
    files: list[str], started: list[tuple[MirrorConfig, RunOptions]], capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--num.streams", "2", "--new.consumer", "--whitelist=.*", "--abort.on.send.failure", "false"]
    assert mirror_maker_1([*files, *options]) == 0
    ((config, _),) = started
    assert (config.flows[0].tasks_max, config.flows[0].on_send_failure) == (2, "retry")
    assert "session.timeout.ms" in capsys.readouterr().err


def test_options_of_older_releases_that_change_nothing_are_accepted(
    files: list[str], started: list[tuple[MirrorConfig, RunOptions]]
) -> None:
    options = ["--new.consumer", "--new.producer", "--no.data.loss", "--queue.size", "9", "--queue.byte.size", "9"]
    assert mirror_maker_1([*files, "--blacklist", "test.*", "--offset.commit.interval.ms", "5", *options]) == 0
    ((config, _),) = started
    (flow,) = config.flows
    assert (flow.should_replicate("orders"), flow.should_replicate("test1")) == (True, False)
    assert flow.progress_group_commit_interval_ms == 5


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        mirror_maker_1(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"kafka-mirror-maker {__version__}\n")


def test_the_socket_buffer_that_the_system_grants_is_reported(
    files: list[str], started: list[tuple[MirrorConfig, RunOptions]], capsys: pytest.CaptureFixture[str]
) -> None:
    with Path(files[1]).open("a") as consumer:
        consumer.write("socket.buffersize=2147483647\n")
    assert mirror_maker_1([*files, "--whitelist", "a"]) == 0
    said = capsys.readouterr().err
    assert "receive.buffer.bytes is 2147483647, the system grants" in said
    assert "raise net.core.rmem_max for more" in said
    assert len(started) == 1


def test_abort_on_send_failure_stands_alone_too(
    files: list[str], started: list[tuple[MirrorConfig, RunOptions]]
) -> None:
    assert mirror_maker_1([*files, "--include", "a", "--abort.on.send.failure", "--once"]) == 0
    ((config, options),) = started
    assert (config.flows[0].on_send_failure, options.once) == ("fail", True)


@pytest.mark.parametrize(
    "option",
    [
        *("--message.handler", "--message.handler.args", "--consumer.rebalance.listener"),
        *("--rebalance.listener", "--rebalance.listener.args"),
    ],
)
def test_java_classes_are_refused_by_the_name_of_their_option(
    files: list[str],
    option: str,
    started: list[tuple[MirrorConfig, RunOptions]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert mirror_maker_1([*files, "--whitelist", ".*", option, "com.example.Handler"]) == 2
    assert f"{option} is not supported" in capsys.readouterr().err
    assert not started


@pytest.mark.parametrize(
    "options", [[], ["--whitelist", "a", "--num.streams", "0"], ["--abort.on.send.failure", "maybe"], ["--what"]]
)
def test_wrong_usage_is_status_2(
    options: list[str], files: list[str], started: list[tuple[MirrorConfig, RunOptions]]
) -> None:
    arguments = [*files, *options] if options else files[:2]
    with pytest.raises(SystemExit) as ended:
        mirror_maker_1(arguments)
    assert ended.value.code == 2
    assert not started


def test_a_spark_master_is_planned_for_as_with_run(
    files: list[str], started: list[tuple[MirrorConfig, RunOptions]]
) -> None:
    assert mirror_maker_1([*files, "--whitelist=.*", "--master", "local[3]"]) == 0
    ((_, options),) = started
    assert options.cluster is not None
    assert options.cluster.master == "local[3]"
