"""References to files, directories and the environment become values; people are shown the reference alone."""

from pathlib import Path

import pytest

from sparkmirror.config.flow.flows import MirrorConfig, examine, parse_config
from sparkmirror.config.formats.properties import parse_properties
from sparkmirror.errors import ConfigError

PROVIDERS = """\
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
config.providers = file, dir, env
config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.dir.class = org.apache.kafka.common.config.provider.DirectoryConfigProvider
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
"""


def parse(lines: str) -> MirrorConfig:
    return parse_config(parse_properties((PROVIDERS + lines).encode(), "mm2"))


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    (tmp_path / "a.properties").write_text("password = hunter2\nuser = anna\n")
    (tmp_path / "token").write_text("hunter3")
    return tmp_path


def test_each_provider_gives_its_values(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRROR_TASKS", "7")
    config = parse(
        "A.security.protocol = SASL_SSL\nA.sasl.mechanism = PLAIN\n"
        f"A.ssl.key.password = ${{file:{secrets}/a.properties:password}}\n"
        f"B.ssl.key.password = ${{dir:{secrets}:token}}\n"
        "tasks.max = ${env:MIRROR_TASKS}\n"
        f'A.sasl.jaas.config = x required username="${{file:{secrets}/a.properties:user}}" '
        f'password="${{file:{secrets}/a.properties:password}}";\n'
    )
    (flow,) = config.flows
    assert config.warnings == ()
    assert flow.source.client["ssl.key.password"] == "hunter2"
    assert flow.target.client["ssl.key.password"] == "hunter3"
    assert flow.source.client["sasl.jaas.config"] == 'x required username="anna" password="hunter2";'
    assert flow.tasks_max == 7
    assert "hunter" not in repr(config)


def test_workers_read_the_same_flow_without_the_files(secrets: Path) -> None:
    config = parse(f"A.ssl.key.password = ${{dir:{secrets}:token}}\ntopics = a\\\\.b, ü # two\n")
    (secrets / "token").unlink()
    assert parse_config(parse_properties(config.text.encode("latin-1"))).flows == config.flows


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("${file:/nowhere/x:password}", r"mm2:9: `\$\{file:/nowhere/x:password\}` in `topics` leads nowhere"),
        ("${file:DIR/a.properties:pasword}", "the file has no key `pasword`"),
        ("${file:password}", "it names no path"),
        ("${dir:DIR:nothing}", "DIR/nothing` cannot be read: No such file"),
        ("${dir:DIR:../x}", "`../x` is not the name of a file in the directory"),
        ("${env:SURELY_NOT_THERE}", "the environment has no variable `SURELY_NOT_THERE`"),
        ("${env:a:PATH}", "a variable has no path"),
    ],
)
def test_a_reference_that_leads_nowhere_is_an_error(secrets: Path, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("DIR", str(secrets))):
        parse(f"topics = {value.replace('DIR', str(secrets))}\n")


def test_parameters_bound_what_may_be_read(secrets: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(
            f"config.providers.file.param.allowed.paths = {secrets}/sub\n"
            "config.providers.env.param.allowlist.pattern = MIRROR_.*\n"
            f"A.ssl.key.password = ${{file:{secrets}/sub/../a.properties:password}}\n"
            "B.ssl.key.password = ${env:PATH}\n"
        )
    assert "is not below `allowed.paths`" in str(caught.value)
    assert "`allowlist.pattern` does not allow the variable" in str(caught.value)


def test_an_allowlist_that_is_no_expression_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRROR_TASKS", "7")
    line = "config.providers.env.param.allowlist.pattern = "
    with pytest.raises(ConfigError, match=r"leads nowhere: `allowlist.pattern` is no Java regular expression"):
        parse(f"tasks.max = ${{env:MIRROR_TASKS}}\n{line}*MIRROR\n")
    assert parse(f"tasks.max = ${{env:MIRROR_TASKS}}\n{line}[A-Z_&&[^X]]++\n").flows[0].tasks_max == 7


def test_the_first_colon_behind_the_path_ends_it_as_in_kafka(secrets: Path) -> None:
    (secrets / "b.properties").write_text("db\\:tasks = 5\n")
    (secrets / "a:b" / "c").mkdir(parents=True)
    (secrets / "a:b" / "c" / "tasks").write_text("6")
    assert parse(f"tasks.max = ${{file:{secrets}/b.properties:db:tasks}}\n").flows[0].tasks_max == 5
    # A key with a slash is that of no file of a directory: there the path goes on.
    assert parse(f"tasks.max = ${{dir:{secrets}/a:b/c:tasks}}\n").flows[0].tasks_max == 6


def test_a_value_that_is_not_usable_is_not_shown(secrets: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(f"tasks.max = ${{dir:{secrets}:token}}\nA.bootstrap.servers = ${{dir:{secrets}:token}}\n")
    assert "hunter" not in str(caught.value)
    assert f"`tasks.max = ${{dir:{secrets}:token}}` leads to a value that is no int" in str(caught.value)


def test_other_references_stay_as_they_stand() -> None:
    (flow,) = parse("A.ssl.key.password = ${vault:a:b}\nB.ssl.key.password = ${x}\n").flows
    assert flow.source.client["ssl.key.password"] == "${vault:a:b}"
    assert flow.target.client["ssl.key.password"] == "${x}"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "config.providers.env.class = com.x.Vault\ntopics = ${env:T}\n",
            "leads nowhere: its provider names a Java class, and nothing says where it is",
        ),
        ("config.providers = env, vault\n", "names `vault`, and `config.providers.vault.class` is missing"),
    ],
)
def test_a_provider_that_is_not_there_is_refused(lines: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLASSPATH", raising=False)
    _, problems = examine(parse_properties((PROVIDERS + lines).encode(), "mm2"))
    assert any(message in str(error) for error in problems.errors)
