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

SparkMirror reads MirrorMaker 2's properties file as it stands, and Strimzi's resources. The smallest file:

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
- A `#` behind a value begins a comment, which Java does not know: it is left out with a warning, except in secrets.
- All problems of a file are reported at once, with their lines. A line without effect gives a warning that says where
  to write it; MirrorMaker ignores such lines in silence.

## Which line counts

- Of a flow's keys, `S->T.KEY` counts before `KEY`.
- Of a client's, `S->T.source.consumer.KEY`, then `S.consumer.KEY`, then `S->T.consumer.KEY`; for the writing client
  `S->T.producer.override.KEY`, then `T.producer.KEY`.
- Addresses and security (`bootstrap.servers`, `security.protocol`, `ssl.*`, `sasl.*`): `X.consumer.KEY`,
  `X.producer.KEY` and `X.admin.KEY` for one kind of client, then `X.KEY`, then `KEY` for all clusters.
- Of `offset.storage.*`, `KEY` counts before `T.KEY`. Set there, all flows into one target share one topic.
- Only flows that are enabled mirror data. `--clusters` keeps the flows into the clusters named, `--flow` those named.
"""

_FORMS = """\
## What a file says

- `sparkmirror config check FILE` prints all problems at once; its exit status is 2 where the file cannot be used,
  with `--strict` also where there are warnings; `--format json` lists each finding with file, line, key, severity and
  hint.
- `sparkmirror config explain FILE` prints each setting of each flow with the line it comes from, the lines that do not
  count, and what is used where that is bounded or derived; `config explain FILE KEY` adds what the key means and where
  it may be written. Secrets are `[hidden]`.
- `sparkmirror config convert FILE --to properties|strimzi` prints the other form. Both of the first take
  `--format json`.

These are read as meant, with a warning, where MirrorMaker refuses the file or takes the text for something else:
`S->T.enable`; switches without their end, as `S->T.emit.heartbeats` for `….enabled`; aliases that differ from a listed
one in capitals alone; a file of flows without `clusters`; comments behind values (`# …` and `// …`).

These give a warning, for they stand where their key belongs and reach nobody: a cluster's lines that are about flows
into it (`T.offset.storage.topic`, `T.exactly.once.source.support`, `T.producer.…`) where none is enabled, those about
flows out of it (`S.consumer.…`) likewise, lines of a flow that no line turns on or off, and lines that one beats which
is about more than they are (`T.offset.storage.topic` beside `offset.storage.topic`). A flow that is switched off may
keep its lines.

## Secrets elsewhere

```properties
config.providers = file, env
config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
A.ssl.key.password = ${file:/etc/mirror/secrets.properties:key.password}
B.ssl.key.password = ${env:B_KEY_PASSWORD}
```

Values are filled in when the file is read, on the machine where the command runs; Spark's workers need neither the
files nor the variables. A reference that leads nowhere is an error.

## Strimzi

Every verb takes a `KafkaMirrorMaker2` resource (`kafka.strimzi.io/v1alpha1`, `v1beta2` and `v1`) for FILE. It means
what Strimzi's operator makes of it: `clusters` or `target` and `source` with `bootstrapServers`, `tls`,
`authentication` (`tls`, `plain`, `scram-sha-256`, `scram-sha-512`, `oauth` with client credentials, `custom`) and
`config`; `mirrors` with `topicsPattern`, `groupsPattern` and their `…ExcludePattern`, `sourceConnector`,
`checkpointConnector`, `heartbeatConnector`. A connector that is missing, paused or stopped does not run, and with
`replicas: 0` none does. Fields that have no effect here give a warning with their line and what does it instead: those
about pods (`resources`, `jvmOptions`, `template` and so on), more than one of `replicas`, `logging`, `metricsConfig`,
`tracing`, `rack`, and of connectors `autoRestart`, `listOffsets` and `alterOffsets`. Keys of this page may stand in the
`config` of a connector, those of the whole file, as `status.listen`, in that of the target too. Other kinds of
resources are refused by name.

There is no Kubernetes here: key K of the secret N is the file `DIR/N/K`, as a pod mounts it, where `DIR` is given by
`--secrets-dir` and is `secrets` beside FILE by default. `kubectl get secret N -o json` has the keys, base64-encoded.

A MirrorMaker that Strimzi ran is taken over: its positions are those of the connector `S->T.MirrorSourceConnector` in
`offsetStorageTopic` (or `offset.storage.topic`; `mirrormaker2-cluster-offsets` without either), and its workers are the
group `groupId` (`group.id`; `mirrormaker2-cluster`). Stop it first: while that group has members, nothing starts.
Positions go on being kept there, as Connect does, so that it can go on from them in turn.

`config convert` does not move positions; its notes say where the other form keeps them. To have a resource go on from
those of a file, put `progress.connector: MirrorSourceConnector` and `offsets.storage.topic: mm2-offsets.S.internal`
into the `config` of its `sourceConnector`.

## Connectors

MirrorMaker 2 on a Connect cluster of one's own is a `MirrorSourceConnector`, and perhaps a `MirrorCheckpointConnector`
and a `MirrorHeartbeatConnector`. Every verb takes their files for FILE, in any order, one file for each or several
connectors in one, and the file of their worker with them:

```
sparkmirror run connect-distributed.properties source.json checkpoint.json heartbeat.json
```

- A connector is a properties file with `connector.class`; JSON as Connect's REST interface takes and gives it,
  `{"name": …, "config": {…}}`, the bare `config`, a list of such, or all that a cluster has (`GET
  /connectors?expand=info`, of which those of MirrorMaker count); or a Strimzi `KafkaConnector`. Its worker is the
  properties file of `connect-distributed` or `connect-standalone`, or a Strimzi `KafkaConnect`.
- Connectors with the same `source.cluster.alias` and `target.cluster.alias` are one flow. What is mirrored is as the
  source connector says, groups as the checkpoint connector, heartbeats as the heartbeat connector; a line that its
  connector does not read is named. A checkpoint or a heartbeat connector without a source connector runs as just that,
  beside the MirrorMaker that mirrors. One whose state is paused or stopped does not run.
- Positions are those that Connect keeps under the connector's `name`. Where they are is the worker's to say:
  `offset.storage.topic` and `group.id`, with `config.providers`, `exactly.once.source.support` and `producer.*`.
  Without the worker's file these keys, or Connect's `offsets.storage.topic`, may stand in the source connector; else
  the names of Kafka's own example count, `connect-offsets` and `connect-cluster`, of Strimzi `connect-cluster-offsets`,
  with a warning. All of that is on the target, where Connect has to run for MirrorMaker. Delete the connector, or stop
  the workers: while one of them has it, though paused or stopped, nothing starts. Other connectors may go on.
- A standalone worker keeps positions in a file (`offset.storage.file.filename`). It is read once, on request, before
  the first run: `sparkmirror positions set FILE --from-file connect.offsets --execute`. Whether such a worker still
  runs cannot be seen from the clusters: stop it first.
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
