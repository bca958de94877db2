"""The table of keys knows every key of MirrorMaker 2 4.3.0, of its workers and of Kafka's clients."""

from collections.abc import Iterable

import pytest
from tests.parity.mirror_maker import mirror_maker_keys

from sparkmirror.config.keys.client_keys import CLIENT_COMMON, SECURITY_NAMES
from sparkmirror.config.keys.key import Scope
from sparkmirror.config.keys.table import KEYS
from sparkmirror.config.keys.unused import UNUSED

READERS: dict[str, tuple[Scope, ...]] = {
    "file": (Scope.FILE, Scope.CLIENT),
    "MirrorSourceConfig": (Scope.FLOW, Scope.FILE, Scope.CLIENT),
    "MirrorCheckpointConfig": (Scope.FLOW, Scope.FILE, Scope.CLIENT),
    "MirrorHeartbeatConfig": (Scope.FLOW, Scope.FILE, Scope.CLIENT),
    "TopicFilter": (Scope.FLOW,),
    "GroupFilter": (Scope.FLOW,),
    "ConfigPropertyFilter": (Scope.FLOW, Scope.FLOW_ONLY),
    "source": (Scope.FLOW, Scope.FLOW_ONLY),
    "worker": (Scope.WORKER, Scope.STORAGE, Scope.FILE, Scope.CLIENT),
    "consumer": (Scope.CONSUMER, Scope.CLIENT, Scope.FILE),
    "producer": (Scope.PRODUCER, Scope.CLIENT, Scope.FILE),
    "admin": (Scope.ADMIN, Scope.CLIENT, Scope.FILE),
    "client": (Scope.FLOW, Scope.CLIENT),
}


@pytest.fixture(scope="module")
def real() -> dict[str, dict[str, str]]:
    return mirror_maker_keys()


def known(scopes: Iterable[Scope]) -> set[str]:
    named = [*((key.scope, key.name) for key in KEYS), *((key.scope, key.name) for key in UNUSED)]
    security = SECURITY_NAMES if Scope.CLIENT in scopes else ()
    return {name for scope, name in named if scope in scopes} | set(security)


@pytest.mark.parametrize("reader", READERS)
def test_every_key_takes_effect_or_has_a_reason_why_not(real: dict[str, dict[str, str]], reader: str) -> None:
    assert sorted(real[reader].keys() - known(READERS[reader])) == []


def test_no_reader_is_left_out(real: dict[str, dict[str, str]]) -> None:
    assert real.keys() == READERS.keys()


def test_what_clients_share_is_what_mirror_maker_says(real: dict[str, dict[str, str]]) -> None:
    shared = {name for name in real["client"] if name.startswith(("bootstrap", "security", "ssl.", "sasl."))}
    assert set(CLIENT_COMMON) == shared


def test_nothing_that_mirror_maker_never_knew_is_said_to_be_its_own(real: dict[str, dict[str, str]]) -> None:
    every = set().union(*real.values())
    unknown = {key.name for key in UNUSED if "<" not in key.name} - every
    assert unknown == OLDER


OLDER = {"auto.include.jmx.reporter"}
"""Keys of clients before 4.0, which files of today still hold."""


def test_a_key_that_differs_from_mirror_maker_says_so(real: dict[str, dict[str, str]]) -> None:
    """Of defaults of ours that are not MirrorMaker's, the table has MirrorMaker's, so that the manual tells them."""
    silent = []
    for key in KEYS:
        for reader, scopes in READERS.items():
            theirs = real[reader].get(key.name)
            if key.name in SET_BY_MIRROR_MAKER:
                continue
            if key.scope not in scopes or theirs is None or _alike(key.default, theirs):
                continue
            if not key.mirrormaker or (theirs not in key.mirrormaker and theirs not in ("null", "required")):
                silent.append(f"{key.name}: {key.default!r}, {reader} has {theirs}")
    assert silent == []


SET_BY_MIRROR_MAKER = {"enabled", "auto.offset.reset"}
"""Where MirrorMaker's own default, as a program, is ours, and its ConfigDef has another: `false` and `earliest`."""


def _alike(ours: object, theirs: str) -> bool:
    text = ",".join(ours) if isinstance(ours, tuple) else str(ours).lower() if isinstance(ours, bool) else str(ours)
    shown = theirs.removeprefix("class ").strip("[]").replace(", ", ",")
    return (
        text == shown
        or text == shown.rpartition(".")[2]
        or (text == "" and theirs in ("null", "required"))
        or (text == "" and shown.startswith("org.apache.kafka"))
    )
