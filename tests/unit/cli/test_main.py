"""The commands: help, exit statuses, and sentences instead of stack traces."""

import json
import platform
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkmirror import __version__
from sparkmirror.cli import orders
from sparkmirror.cli.main import connect_mirror_maker, main
from sparkmirror.config.flow.flows import MirrorConfig
from sparkmirror.errors import ClusterUnreachable, ConfigError, EnvironmentProblem, FencedError
from sparkmirror.runtime.options import RunOptions
from sparkmirror.spark.cluster import SparkCluster

FILE = """\
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
B->A.enabled = true
"""

Engine = Callable[[MirrorConfig, RunOptions], int]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    return str(path)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Callable[[Engine], None]:
    """Puts a function in the engine's place."""

    def install(run_mirror: Engine) -> None:
        module = types.ModuleType("sparkmirror.runtime.start")
        module.run_mirror = run_mirror  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "sparkmirror.runtime.start", module)

    return install


def raising(error: BaseException) -> Engine:
    def run_mirror(config: MirrorConfig, options: RunOptions) -> int:
        raise error

    return run_mirror


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    words = capsys.readouterr().out.split()
    assert ended.value.code == 0
    assert {"run", "demo", "version"} <= set(words)


@pytest.mark.parametrize("arguments", [["fly"], ["run"], ["run", "f", "--format", "xml"], ["run", "f", "--what"]])
def test_wrong_usage_is_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: sparkmirror" in capsys.readouterr().err


def test_without_a_verb_all_verbs_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "how each flow stands, also without a running mirror" in capsys.readouterr().err


def test_run_hands_file_and_options_to_the_engine(file: str, engine: Callable[[Engine], None]) -> None:
    seen: list[tuple[MirrorConfig, RunOptions]] = []

    def run_mirror(config: MirrorConfig, options: RunOptions) -> int:
        seen.append((config, options))
        return 7

    engine(run_mirror)
    flags = ["--clusters", "B", "--once", "--master", "local[2]", "--debug"]
    assert main(["run", file, *flags]) == 7
    (config, options) = seen[0]
    assert [str(flow.name) for flow in config.flows] == ["A->B"]
    assert options == RunOptions(once=True, cluster=SparkCluster("local[2]"), debug=True)


def test_run_keeps_the_flows_asked_for(file: str, engine: Callable[[Engine], None]) -> None:
    kept: list[str] = []
    engine(lambda config, options: kept.extend(str(flow.name) for flow in config.flows) or 0)
    assert main(["run", file, "--flow", "B->A"]) == 0
    assert kept == ["B->A"]


def test_connect_mirror_maker_is_run(file: str, engine: Callable[[Engine], None]) -> None:
    seen: list[tuple[list[str], RunOptions]] = []
    engine(lambda config, options: seen.append(([str(flow.name) for flow in config.flows], options)) or 0)
    assert connect_mirror_maker([file, "--clusters", "A"]) == 0
    assert seen == [(["B->A"], RunOptions())]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ClusterUnreachable("no broker of A answered"), 1),
        (FencedError("another has taken over"), 1),
        (ConfigError("`topics` is wrong", file="mm2", line=3), 2),
        (EnvironmentProblem("no Java", "install Java 17"), 3),
        (ModuleNotFoundError("No module named 'pyspark'", name="pyspark"), 3),
        (ModuleNotFoundError("No module named 'sparkmirror.x'", name="sparkmirror.x"), 1),
        (ZeroDivisionError("division by zero"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_the_exit_status_tells_the_kind_of_failure(
    error: BaseException, status: int, file: str, engine: Callable[[Engine], None], capsys: pytest.CaptureFixture[str]
) -> None:
    engine(raising(error))
    assert main(["run", file]) == status
    assert "Traceback" not in capsys.readouterr().err


def test_an_error_is_a_sentence_with_its_hint(
    file: str, engine: Callable[[Engine], None], capsys: pytest.CaptureFixture[str]
) -> None:
    engine(raising(EnvironmentProblem("no Java here", "install Java 17")))
    main(["run", file])
    assert capsys.readouterr().err == "sparkmirror: no Java here\n  hint: install Java 17\n"


def test_the_unexpected_is_one_sentence_and_a_way_on(
    file: str, engine: Callable[[Engine], None], capsys: pytest.CaptureFixture[str]
) -> None:
    engine(raising(ZeroDivisionError("division\nby zero")))
    main(["run", file])
    said = capsys.readouterr().err
    assert said.startswith("sparkmirror: unexpected ZeroDivisionError: division by zero\n")
    assert "run again with --debug" in said


def test_debug_shows_the_stack(file: str, engine: Callable[[Engine], None], capsys: pytest.CaptureFixture[str]) -> None:
    engine(raising(ConfigError("wrong")))
    assert main(["run", file, "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(tmp_path / "none")]) == 2
    assert "cannot be read: No such file or directory" in capsys.readouterr().err


def test_all_problems_of_a_file_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE + "tasks.max = 0\nA.ssl.keystore.password = hunter2\ntopics = (\n")
    assert main(["run", str(path)]) == 2
    said = capsys.readouterr().err
    assert f"{path}:6: `tasks.max = 0`" in said
    assert f"{path}:8: `topics = (`" in said
    assert "hunter2" not in said


def test_warnings_go_to_the_error_stream(
    tmp_path: Path, engine: Callable[[Engine], None], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE + "topcs = x\n")
    engine(lambda config, options: 0)
    assert main(["run", str(path)]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"warning: {path}:6: `topcs` is not a known key")


def test_json_logs_leave_nothing_else_on_the_error_stream(
    tmp_path: Path, engine: Callable[[Engine], None], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE + "topcs = x\nlog.format = json\n")
    engine(raising(ClusterUnreachable("no broker of A answered", "start it")))
    assert main(["run", str(path), "--log-format", "json"]) == 1
    warning, ended, *others = map(json.loads, capsys.readouterr().err.splitlines())
    assert {other["event"] for other in others} == {"ended"}, "why other clusters do not answer, which is so here"
    assert (warning["level"], warning["event"]) == ("WARNING", "configuration")
    assert (ended["event"], ended["message"], ended["hint"]) == ("ended", "no broker of A answered", "start it")
    main(["run", str(path), "--log-format", "text"])
    assert "sparkmirror: no broker of A answered" in capsys.readouterr().err
    assert main(["run", str(tmp_path / "none"), "--log-format", "json"]) == 2
    assert json.loads(capsys.readouterr().err)["level"] == "ERROR"


def test_demo_passes_its_arguments_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    module = types.ModuleType("sparkmirror.testing.demo")
    module.main = lambda argv: seen.append(argv) or 5  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sparkmirror.testing.demo", module)
    assert main(["demo", "--records", "5", "--help"]) == 5
    assert seen == [["--records", "5", "--help"]]


def test_version_prints_what_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert f"sparkmirror {__version__}\n" in capsys.readouterr().out


def test_version_speaks_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--format", "json"]) == 0
    versions = json.loads(capsys.readouterr().out)
    assert versions["sparkmirror"] == __version__
    assert versions["java"].split(".")[0].isdecimal() and versions["os"].startswith(platform.system())


def test_version_says_that_no_java_is_found(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main(["version"]) == 0
    assert f"java unknown: JAVA_HOME is {tmp_path}, but there is no" in capsys.readouterr().out


def test_help_loads_neither_spark_nor_a_kafka_client() -> None:
    program = (
        "import sys; from sparkmirror.cli.main import main\n"
        "try: main(['run', '--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'pyspark', 'kafka', 'numpy', 'regex'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "pattern", "rate"),
    [(["10MB"], "", 10_000_000), (["audit.*", "500kB"], "audit.*", 500_000), (["none"], "", 0), (["file"], "", None)],
)
def test_throttle_orders_a_rate_for_all_or_for_a_pattern(
    file: str, monkeypatch: pytest.MonkeyPatch, arguments: list[str], pattern: str, rate: int | None
) -> None:
    ordered: list[tuple[str, str, int | None]] = []
    monkeypatch.setattr(
        orders, "order_rate", lambda flow, pattern, rate: ordered.append((str(flow.name), pattern, rate))
    )
    assert main(["throttle", file, "A->B", *arguments]) == 0
    assert ordered == [("A->B", pattern, rate)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [(["A->B", "fast"], "`fast` is not a rate"), (["A->B", "a[", "1"], "`a[` is not"), (["A->C", "1"], "A->C")],
)
def test_throttle_refuses_what_it_cannot_order(
    file: str, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert main(["throttle", file, *arguments]) == 2
    assert sentence in capsys.readouterr().err
