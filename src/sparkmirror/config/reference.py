"""Writes the reference of all keys from their table. Called by `python -m sparkmirror.config.keys.table`."""

from collections.abc import Iterable, Iterator
from typing import Any

from sparkmirror.config.keys.client_keys import SECURITY_NAMES
from sparkmirror.config.keys.key import Key, Scope
from sparkmirror.config.keys.table import keys_of
from sparkmirror.config.keys.unused import UNUSED
from sparkmirror.config.spelling import MISPRINTS, RENAMED

_INTRODUCTION = """\
# Configuration

<!-- Written by `python -m sparkmirror.config.keys.table > docs/configuration.md`; edit config/keys instead. -->

SparkMirror reads MirrorMaker 2's properties file unchanged, and Strimzi's resources. This is the smallest file:

```properties
clusters = A, B
A.bootstrap.servers = a1:9092
B.bootstrap.servers = b1:9092
A->B.enabled = true
```

Below, S and T stand for the aliases of a flow's source and target, X for the alias of any cluster.

## The file

- Java's rules for `.properties` hold: ISO-8859-1 with `\\uXXXX`, `#` and `!` begin comments, a blank, `=` or `:` ends
  a key, a backslash at the end of a line continues it, and **a backslash before an ordinary character is dropped**:
  write `orders\\\\.eu` to get the expression `orders\\.eu`. Of several equal keys the last counts, with a warning.
- Lists are split at commas; the empty list matches nothing. Expressions are Java's, are joined by `|` and match whole
  names. Numbers are whole; booleans are `true` or `false`, but `enabled` is on for `true` alone and off for all else.
- SparkMirror reads a `#` after a value as the beginning of a comment, which Java does not; it drops the comment with a
  warning, except in secrets.
- SparkMirror reports all problems of a file at once, with their lines. A line without effect gives a warning that says
  where to write it; MirrorMaker ignores such lines silently.

## Precedence

- For a flow's keys, `S->T.KEY` takes precedence over `KEY`.
- For keys of the reading client the order is `S->T.source.consumer.KEY`, then `S.consumer.KEY`, then
  `S->T.consumer.KEY`; for the writing client `S->T.producer.override.KEY`, then `T.producer.KEY`.
- For addresses and security (`bootstrap.servers`, `security.protocol`, `ssl.*`, `sasl.*`) it is `X.consumer.KEY`,
  `X.producer.KEY` and `X.admin.KEY` for one kind of client, then `X.KEY`, then `KEY` for all clusters.
- For `offset.storage.*`, `KEY` takes precedence over `T.KEY`. With `KEY`, all flows into one target share one topic.
- Only flows that are enabled mirror data. `--clusters` selects the flows into the named clusters, `--flow` the named
  flows.
"""

_FORMS = """\
## Commands about a file

- `sparkmirror config check FILE` prints all problems at once; its exit status is 2 where the file cannot be used,
  with `--strict` also where there are warnings; `--format json` lists each finding with file, line, key, severity and
  hint.
- `sparkmirror config explain FILE` prints each setting of each flow with the line it comes from, the lines without
  effect, and the value in use where it is bounded or derived; `config explain FILE KEY` adds what the key means and
  where it may be written. Secrets are `[hidden]`.
- `sparkmirror config convert FILE --to properties|strimzi` prints the file in the other form. `check` and `explain`
  take `--format json`.

SparkMirror understands the following lines, with a warning, where MirrorMaker refuses the file or reads them otherwise:
`S->T.enable`; switches without their end, for example `S->T.emit.heartbeats` for `….enabled`; aliases that differ from
a listed one only in capitals; a file of flows without `clusters`; comments after values (`# …` and `// …`).

The following lines give a warning because they have no effect, although their key is in its right place: lines of a
cluster about flows into it (`T.offset.storage.topic`, `T.exactly.once.source.support`, `T.producer.…`) if no flow into
it is enabled; lines about flows out of it (`S.consumer.…`) if none out of it is enabled; lines of a flow that no line
turns on or off; and lines over which a more general line takes precedence (`T.offset.storage.topic` beside
`offset.storage.topic`). Lines of a flow that is switched off give no warning.

## Config providers

```properties
config.providers = file, env
config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
A.ssl.key.password = ${file:/etc/mirror/secrets.properties:key.password}
B.ssl.key.password = ${env:B_KEY_PASSWORD}
```

The command resolves the references when it reads the file, on the machine where it runs; Spark's workers need neither
the files nor the variables. A reference that cannot be resolved is an error.

## Strimzi

Every verb takes a `KafkaMirrorMaker2` resource (`kafka.strimzi.io/v1alpha1`, `v1beta2` and `v1`) as FILE. SparkMirror
reads it as Strimzi's operator does: `clusters` or `target` and `source` with `bootstrapServers`, `tls`,
`authentication` (`tls`, `plain`, `scram-sha-256`, `scram-sha-512`, `oauth` with client credentials, `custom`) and
`config`; `mirrors` with `topicsPattern`, `groupsPattern` and their `…ExcludePattern`, `sourceConnector`,
`checkpointConnector`, `heartbeatConnector`. A connector that is missing, paused or stopped does not run, and with
`replicas: 0` none does. Fields that have no effect here give a warning with their line and the setting to use instead:
those about pods (`resources`, `jvmOptions`, `template` and so on), `replicas` above 1, `logging`, `metricsConfig`,
`tracing`, `rack`, and `autoRestart`, `listOffsets` and `alterOffsets` of connectors. Keys of this page may stand in the
`config` of a connector; keys of the whole file, such as `status.listen`, may also stand in the `config` of the target.
SparkMirror refuses other kinds of resources and names them.

SparkMirror reads secrets from files, not from Kubernetes: key K of the secret N is the file `DIR/N/K`, as a pod mounts
it. `--secrets-dir` sets `DIR`; the default is `secrets` beside FILE. `kubectl get secret N -o json` prints the keys,
base64-encoded.

SparkMirror continues from the positions of a MirrorMaker that Strimzi ran: those of the connector
`S->T.MirrorSourceConnector` in `offsetStorageTopic` (or `offset.storage.topic`; `mirrormaker2-cluster-offsets` without
either). That MirrorMaker's workers are the group `groupId` (`group.id`; `mirrormaker2-cluster`). Stop it first: while
the group has members, SparkMirror refuses to start. SparkMirror keeps storing positions there in Connect's format, so
that MirrorMaker can continue from them in turn.

`config convert` does not move positions; its notes say where the other form keeps them. To let a resource continue from
the positions of a file, put `progress.connector: MirrorSourceConnector` and
`offsets.storage.topic: mm2-offsets.S.internal` into the `config` of its `sourceConnector`.

## Connectors

MirrorMaker 2 on an existing Connect cluster is a `MirrorSourceConnector`, and perhaps a `MirrorCheckpointConnector` and
a `MirrorHeartbeatConnector`. Every verb takes their files as FILE, in any order, one file for each or several
connectors in one, together with the file of their worker:

```
sparkmirror run connect-distributed.properties source.json checkpoint.json heartbeat.json
```

- A connector is a properties file with `connector.class`; JSON as Connect's REST interface takes and gives it,
  `{"name": …, "config": {…}}`, the bare `config`, a list of such, or all that a cluster has (`GET
  /connectors?expand=info`, of which those of MirrorMaker count); or a Strimzi `KafkaConnector`. Its worker is the
  properties file of `connect-distributed` or `connect-standalone`, or a Strimzi `KafkaConnect`.
- Connectors with the same `source.cluster.alias` and `target.cluster.alias` form one flow. The source connector
  configures topics, the checkpoint connector groups, and the heartbeat connector heartbeats; a line that its connector
  does not read gives a warning. A checkpoint or a heartbeat connector without a source connector runs alone, beside the
  MirrorMaker that mirrors. A connector whose state is paused or stopped does not run.
- Positions are those that Connect keeps under the connector's `name`. The worker's file says where:
  `offset.storage.topic` and `group.id`, with `config.providers`, `exactly.once.source.support` and `producer.*`.
  Without the worker's file these keys, or Connect's `offsets.storage.topic`, may stand in the source connector.
  Otherwise SparkMirror uses the names of Kafka's own example, `connect-offsets` and `connect-cluster`, or for Strimzi
  `connect-cluster-offsets`, with a warning. All of these are on the target, where Connect must run for MirrorMaker.
  Delete the connector, or stop the workers: while a worker has the connector, even paused or stopped, SparkMirror
  refuses to start. Other connectors may go on.
- A standalone worker keeps positions in a file (`offset.storage.file.filename`). Import it once before the first run:
  `sparkmirror positions set FILE --from-file connect.offsets --execute`. SparkMirror cannot see whether such a worker
  still runs: stop it first.
- All keys of this page may stand in a connector: those of flows, of the target's worker, and of the whole file, such as
  `status.listen`. `config convert --to properties` writes all of it as one properties file.
"""

_SECTIONS: tuple[tuple[str, tuple[Scope, ...]], ...] = (
    ("The whole file", (Scope.FILE,)),
    ("Flows", (Scope.FLOW, Scope.FLOW_ONLY)),
    ("Positions", (Scope.STORAGE, Scope.WORKER)),
    ("Addresses and security", (Scope.CLIENT,)),
    ("Reading client", (Scope.CONSUMER,)),
    ("Writing client", (Scope.PRODUCER,)),
    ("Admin client", (Scope.ADMIN,)),
)


def render_reference() -> str:
    """docs/configuration.md, whole."""
    return "\n".join([_INTRODUCTION, _FORMS, *_tables(), *_security(), *_without_effect()]) + "\n"


def _tables() -> Iterator[str]:
    for title, scopes in _SECTIONS:
        yield f"## {title}\n"
        yield "| Key | Written as | Type | Default | Meaning | MirrorMaker 2 |\n|---|---|---|---|---|---|"
        yield from (_row(key) for key in keys_of(*scopes))
        yield ""


def _row(key: Key[Any]) -> str:
    places = "<br>".join(f"`{spelling}`" for spelling in key.scope.spellings(key.name))
    cells = (f"`{key.name}`", places, key.type.label, _default(key.default), key.doc, key.mirrormaker or "same")
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _default(value: object) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    text = ", ".join(value) if isinstance(value, tuple) else str(value)
    return f"`{text}`" if text else ""


def _security() -> Iterator[str]:
    yield "## TLS and SASL\n"
    yield "Kafka's client keys, written as the addresses are; [security.md](security.md) says what they do:\n"
    yield f"{_listed(SECURITY_NAMES)}.\n"


def _without_effect() -> Iterator[str]:
    yield "## Keys without effect\n"
    yield "Known to MirrorMaker 2, Kafka Connect or Kafka's clients. Each gives one warning with its reason.\n"
    yield "| Keys | Why |\n|---|---|"
    reasons = dict.fromkeys(entry.reason for entry in UNUSED)
    for reason in reasons:
        names = dict.fromkeys(entry.name for entry in UNUSED if entry.reason == reason)
        yield f"| {_listed(sorted(names))} | {reason} |"
    yield "\n## Other spellings\n"
    yield "Keys of older releases. They give a warning and have no effect, as in MirrorMaker:\n"
    yield from (f"- `{name}`: {meaning}" for name, meaning in RENAMED.items() if name not in MISPRINTS)
    yield f"\nMisprints of Kafka's documentation, read as if `.enabled` stood behind them: {_listed(MISPRINTS)}."


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
