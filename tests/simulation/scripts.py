"""What is to happen in a history: all of it drawn from one seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random

import msgspec
from tests.simulation.announcements import ANNOUNCED, ANNOUNCED_FAULTS, DRIVER_FAULTS
from tests.simulation.faults import (
    ACL_EVENTS,
    ACL_FAULTS,
    EVENTS,
    FAULTS,
    FREQUENT_EVENTS,
    GROUP_EVENTS,
    GROUP_FAULTS,
    HEARTBEAT_FAULTS,
    JOB_EVENTS,
    JOB_FAULTS,
    LATER_FAULTS,
    REQUEST_EVENTS,
    SETTINGS_EVENTS,
    SETTINGS_FAULTS,
    Fault,
    FaultKind,
    kind_of,
)
from tests.simulation.kept import (
    KEPT_EVENTS,
    KEPT_FAULTS,
    LEFT_OUT,
    SELDOM,
    WRITING_EVENTS,
    WRITING_FAULTS,
    WRITING_MAX,
    Kept,
    draw_kept,
)
from tests.simulation.meetings import REST_FAULTS, ROWS_FAULTS
from tests.simulation.orders import LATER_ORDERS
from tests.simulation.variations import change_few, vary

from sparkmirror.policy.fillers import WRITE_MARKERS

_AT_EVENT_SHARE = 0.5
_JOBS_SHARE = 0.4
_NAMES_STAY_SHARE = 0.4
_ACLS_SHARE, _REVOKES_SHARE = 0.4, 0.7
_HEARTBEATS_SHARE = 0.4
_SETTINGS_SHARE, _SOURCE_DEFAULTS_SHARE = 0.4, 0.3
_FLOODS_SHARE, _LARGE_SHARE, _TRANSACTIONS_SHARE, _RESIZES_SHARE = 0.2, 0.12, 0.3, 0.3
_RHYTHMS = ("steady", "calm", "bursts")
_KEPT_SHARE, _KEPT_JOBS_SHARE, _KEPT_TRANSACTIONS_SHARE, _KEPT_COMMITTED_SHARE = 0.2, 0.35, 0.6, 0.75
_EARLY_SHARE = 0.2
"""Of flows that keep offsets: how often the first fault may come before anything was mirrored."""
_QUIET_SHARE, _UNREAD_SHARE, _QUIET = 0.25, 0.4, (0.3, 1.0)
_TWINS_SHARE, _DOUBLES_SHARE = 0.2, 1 / 6
_VARIED_SHARE, _SAME_WORLD_SHARE, _CHANGED_SHARE = 0.3, 0.5, 0.15
_VARIED = (
    "exactly_once", "is_old_target", "is_old_source", "partitions", "epoch_seconds", "rhythm", "focus", "fetch_bytes",
    "writes_until", "quiet_focus", "reads_until", "doubles_markers",
)  # fmt: skip
"""What a variation may have otherwise than the history that it varies."""
PAST_FAILURES = Path(__file__).with_name("past_failures.json")
"""Histories that once showed something: a promise broken, or a broker simulated otherwise than real ones are."""
_REQUESTS_MAX = 4
_PUT_OUT_SHARE, _PUT_OUT_MAX = 0.4, 3
"""Of histories of several processes: in how many some are put out between two epochs, and how often at most."""
_ANNOUNCED_SHARE, _ANNOUNCED_MAX, _DRIVER_SHARE = 0.2, 3, 0.1
"""In how many histories something strikes before the row of an announcement, how often at most; and in how many a
driver ends alone."""
_ORDERS_SHARE, _ORDERS_MAX = 0.2, 2
"""In how many histories persons limit, stop, or pause one partition, or brokers have quotas, and how often at most."""
_LATER_SHARE, _LATER_MAX = 0.25, 2
"""In how many histories batches in doubt are lost, or a log is cut behind a refusal, and how often at most."""
_ROWS_SHARE, _REST_SHARE, _MEETINGS_MAX = 0.15, 0.5, 2
"""In how many histories rows come behind a rewind; and in how many of those whose number of tasks changes another run
takes over while the source rests; and how often at most."""
OPEN_FINDINGS = PAST_FAILURES.with_name("open_findings.json")
"""Histories that fail, and are not understood or not mended yet."""
_FETCH_BYTES, _FLOODED_FETCH_BYTES = (0, 0, 0, 1, 300, 4000), (0, 4000)
"""Answers of one batch, of a few, or of a part of a flood; 0 is without a limit that anything reaches."""
_LARGE_KEY_BYTES = 16_000
"""So large records fill the memory that readers lend to writers."""


@dataclass(frozen=True, slots=True)
class Script:
    """All that decides a history: its seed, what kind of flow it is, and the faults in their order.

    `rhythm` is how its source is written to; `focus` is the place that most faults strike, where they have a choice.
    More than one of `processes` share the flow as a group. With `jobs` the driver's jobs run, and a group reads.
    Records have keys of some `key_bytes` more than they need. With `has_transactions` most are written in transactions,
    and batches are compressed; `read_committed` is what the mirror reads. Where it `resizes`, epochs begin with another
    number of tasks, and end for more. With `names_stay` topics keep their names on the target. `settings` says that
    remote topics follow the source's settings, and where the defaults come from: `target` or `source`. `acls`
    says that ACLs are copied, and what becomes of those that the source has no more: `keep` or `revoke`.
    With `heartbeats` the leading process sends them. With `kept` the flow keeps offsets. `fetch_bytes` is
    `max.partition.fetch.bytes`, where it is set. From `writes_until` on, in seconds from the beginning, the source is
    not written to, or where `quiet_focus` is set only its partition of `focus`; from `reads_until` on the group on the
    source reads nothing; 0 is never. With `doubles_markers` those of fillers come twice, until all heals.
    With `leaves_markers_out` the target's brokers do that (`left_out.py`), with `leaves_ledger_open` in the ledger too.
    What is drawn while a history is played is drawn by `world`, or by the seed where that is 0.
    """

    seed: int
    exactly_once: bool
    is_old_target: bool
    is_old_source: bool
    partitions: int
    tasks: int
    epoch_seconds: int
    seconds: float
    faults: tuple[Fault, ...]
    rhythm: str = "steady"
    focus: int = 0
    processes: int = 1
    jobs: bool = False
    key_bytes: int = 0
    has_transactions: bool = False
    read_committed: bool = False
    resizes: bool = False
    names_stay: bool = False
    settings: str = ""
    acls: str = ""
    heartbeats: bool = False
    kept: Kept | None = None
    fetch_bytes: int = 0
    writes_until: float = 0.0
    quiet_focus: bool = False
    reads_until: float = 0.0
    doubles_markers: bool = False
    leaves_markers_out: bool = False
    leaves_ledger_open: bool = False
    world: int = 0

    @property
    def world_seed(self) -> int:
        return self.world or self.seed


def read_scripts(text: str) -> list[Script]:
    """Histories kept as JSON: they stay what they are when the weights of faults change."""
    return msgspec.json.decode(text, type=list[Script])


def write_scripts(scripts: Sequence[Script]) -> str:
    return "[\n" + ",\n".join(msgspec.json.encode(script).decode() for script in scripts) + "\n]\n"


def plan(seed: int) -> Script:
    """What the seed says: one fault to sixteen, often close together; or a history that failed once, changed a bit."""
    is_kept = Random(f"kept offsets of {seed}").random() < _KEPT_SHARE
    drawn = _join_later_kinds(_plan_kept(seed) if is_kept else _plan_other(seed))
    drawn = _quieten(replace(
        drawn, fetch_bytes=Random(f"fetch bytes of {seed}").choice(_FETCH_BYTES),
        doubles_markers=is_kept and Random(f"double markers of {seed}").random() < _DOUBLES_SHARE,
    ))  # fmt: skip
    script = _varied(drawn, Random(f"what varies of {seed}")) if is_variation(seed) else drawn
    is_slow = script.rhythm == "floods" and script.fetch_bytes not in _FLOODED_FETCH_BYTES
    return replace(script, fetch_bytes=max(_FLOODED_FETCH_BYTES)) if is_slow else script


def _join_later_kinds(script: Script) -> Script:
    """Faults of kinds that were added later come beside the others, which stay as they were drawn: those that strike
    between an announcement and its row, others at such a moment, drivers that end alone, and orders."""
    random, faults = Random(f"announcements and drivers of {script.seed}"), script.faults
    if random.random() < _ANNOUNCED_SHARE:
        own = _weighted(ANNOUNCED_FAULTS)
        others = [kind_of(fault) for fault in faults]
        more = _draw_faults(random, (*own * len(others), *others), (ANNOUNCED,), _ANNOUNCED_MAX, script.seconds)
        faults = _joined(faults, more)
    if random.random() < _DRIVER_SHARE:
        faults = _joined(faults, _draw_faults(random, tuple(DRIVER_FAULTS), EVENTS, 1, script.seconds))
    if random.random() < _ORDERS_SHARE:
        faults = _joined(faults, _draw_faults(random, _weighted(LATER_ORDERS), EVENTS, _ORDERS_MAX, script.seconds))
    if random.random() < _LATER_SHARE:
        faults = _joined(faults, _draw_faults(random, _weighted(LATER_FAULTS), EVENTS, _LATER_MAX, script.seconds))
    if random.random() < _ROWS_SHARE:
        faults = _joined(faults, _draw_faults(random, _weighted(ROWS_FAULTS), EVENTS, _MEETINGS_MAX, script.seconds))
    may_shrink = script.resizes and script.partitions > 1 and script.processes == 1
    if may_shrink and random.random() < _REST_SHARE:
        faults = _joined(faults, _draw_faults(random, _weighted(REST_FAULTS), EVENTS, _MEETINGS_MAX, script.seconds))
    return replace(script, faults=faults)


def _weighted(faults: Mapping[str, FaultKind]) -> list[str]:
    """Their names, each as often as its weight says."""
    return [name for name, (weight, _) in faults.items() for _ in range(weight)]


def is_variation(seed: int) -> bool:
    """Whether it is a variation of a history that failed once; what such a seed says changes with what is kept."""
    return Random(f"a variation {seed}").random() < _VARIED_SHARE


def _quieten(script: Script) -> Script:
    """What the next record or commit would mend stays, and is seen, where there is none while faults go on."""
    random = Random(f"quiet of {script.seed}")
    writes_until = round(script.seconds * random.uniform(*_QUIET), 3) if random.random() < _QUIET_SHARE else 0.0
    quiet_focus = random.random() < 1 / 2
    reads_until = round(script.seconds * random.uniform(*_QUIET), 3) if random.random() < _UNREAD_SHARE else 0.0
    reads_until *= script.jobs
    return replace(script, writes_until=writes_until, quiet_focus=quiet_focus, reads_until=reads_until)


@cache
def past_failures() -> tuple[Script, ...]:
    """In the order in which they were kept."""
    return tuple(read_scripts(PAST_FAILURES.read_text()))


def _varied(drawn: Script, random: Random) -> Script:
    """A history that failed once, with some of its faults, and in some respects as `drawn` is; or as it was but for a
    fault or two."""
    past = random.choice([one for one in past_failures() if (one.kept is None) == (drawn.kept is None)])
    known = _known_faults(past)
    others = [fault for fault in drawn.faults if kind_of(fault) in known]
    if random.random() < _SAME_WORLD_SHARE:
        return replace(past, seed=drawn.seed, world=past.world_seed, faults=change_few(random, past.faults, others))
    changed = {name: getattr(drawn, name) for name in _VARIED if random.random() < _CHANGED_SHARE}
    return replace(past, **changed, seed=drawn.seed, world=0, faults=vary(random, past.faults, others, past.seconds))


def _known_faults(script: Script) -> Mapping[str, FaultKind]:
    """Those that find something to act on."""
    kept = {} if script.kept is None else KEPT_FAULTS
    known = FAULTS | (JOB_FAULTS if script.jobs else {}) | (GROUP_FAULTS if script.processes > 1 else {})
    known |= (SETTINGS_FAULTS if script.settings else {}) | (ACL_FAULTS if script.acls else {})
    known |= (HEARTBEAT_FAULTS if script.heartbeats else {}) | kept | ANNOUNCED_FAULTS | DRIVER_FAULTS
    return {name: kind for name, kind in known.items() if not (kept and name in LEFT_OUT)}


def _plan_other(seed: int) -> Script:
    """A flow that translates offsets."""
    random = Random(seed)
    more = Random(f"more of {seed}")
    has_jobs, processes = more.random() < _JOBS_SHARE, more.choice((1, 1, 1, 2))
    is_flooded, is_large = more.random() < _FLOODS_SHARE, more.random() < _LARGE_SHARE
    has_transactions, read_committed = more.random() < _TRANSACTIONS_SHARE, more.random() < 0.6
    resizes, names_stay = more.random() < _RESIZES_SHARE, more.random() < _NAMES_STAY_SHARE
    has_settings = more.random() < _SETTINGS_SHARE and has_jobs
    settings = "source" if more.random() < _SOURCE_DEFAULTS_SHARE else "target"
    has_acls = more.random() < _ACLS_SHARE and has_jobs
    acls = "revoke" if more.random() < _REVOKES_SHARE else "keep"
    has_heartbeats = more.random() < _HEARTBEATS_SHARE and has_jobs
    seconds = random.choice((8.0, 15.0, 25.0))
    names, events, faults_max = _swarm(
        random, FAULTS | (JOB_FAULTS if has_jobs else {}) | (GROUP_FAULTS if processes > 1 else {})
        | (SETTINGS_FAULTS if has_settings else {}) | (ACL_FAULTS if has_acls else {})
        | (HEARTBEAT_FAULTS if has_heartbeats else {}),
        (*EVENTS, *random.sample(REQUEST_EVENTS, _REQUESTS_MAX)),
        (*JOB_EVENTS * has_jobs, *GROUP_EVENTS * (processes > 1), *SETTINGS_EVENTS * has_settings,
         *ACL_EVENTS * has_acls),
    )  # fmt: skip
    faults = _draw_faults(random, names, events, faults_max, seconds)
    if processes > 1 and more.random() < _PUT_OUT_SHARE:
        faults = _joined(faults, _draw_faults(more, tuple(GROUP_FAULTS), ("epoch",), _PUT_OUT_MAX, seconds))
    return Script(
        seed, random.random() < 0.5, random.random() < 0.4, random.random() < 0.3, random.choice((1, 2, 3)),
        random.choice((1, 1, 2)) + 2 * resizes, random.choice((4, 10, 600, 600)), seconds,
        faults,
        random.choice(_RHYTHMS if not is_flooded else ("floods",)), random.randrange(6),
        processes, has_jobs, _LARGE_KEY_BYTES * is_large, has_transactions, read_committed, resizes,
        names_stay and has_jobs, settings if has_settings else "",
        acls if has_acls else "", has_heartbeats,
    )  # fmt: skip


def _draw_faults(
    random: Random, names: Sequence[str], events: Sequence[str], faults_max: int, seconds: float, begins: float = 0.5
) -> tuple[Fault, ...]:
    """Some come at the moment of the one before, as failures of one cause do."""
    at, faults = begins, list[Fault]()
    for _ in range(random.randint(1, faults_max)):
        at += random.choice((0.02, 0.2, 0.7, 2.0, 5.0)) * random.random()
        at_event = random.choice((" @ ", " @ ", " @ ", " after ")) + random.choice(events)
        event = at_event if random.random() < _AT_EVENT_SHARE else ""
        when = round(at % seconds, 4)
        if faults and random.random() < _TWINS_SHARE:
            when, event = faults[-1].at, faults[-1].name.removeprefix(kind_of(faults[-1]))
        faults.append(Fault(when, random.choice(names) + event, random.getrandbits(32)))
    return tuple(sorted(faults, key=lambda f: f.at))


def _joined(faults: Sequence[Fault], more: Sequence[Fault]) -> tuple[Fault, ...]:
    return tuple(sorted((*faults, *more), key=lambda f: f.at))


def _plan_kept(seed: int) -> Script:
    """A flow that keeps offsets. Nothing of it is drawn from the numbers of other histories."""
    random = Random(f"a flow that keeps offsets {seed}")
    has_jobs, processes, kept = random.random() < _KEPT_JOBS_SHARE, random.choice((1, 1, 1, 2)), draw_kept(random)
    known = FAULTS | (JOB_FAULTS if has_jobs else {}) | (GROUP_FAULTS if processes > 1 else {}) | KEPT_FAULTS
    weights = {name: (1 if name in SELDOM else kind[0], kind[1]) for name, kind in known.items()}
    names, events, faults_max = _swarm(
        random, {name: kind for name, kind in weights.items() if name not in LEFT_OUT},
        (*EVENTS, *random.sample(REQUEST_EVENTS, _REQUESTS_MAX)),
        (*KEPT_EVENTS, *JOB_EVENTS * has_jobs, *GROUP_EVENTS * (processes > 1)),
    )  # fmt: skip
    seconds, is_early = random.choice((8.0, 15.0, 25.0)), Random(f"early faults of {seed}").random() < _EARLY_SHARE
    faults = _draw_faults(random, names, events, faults_max, seconds, 0.0 if is_early else 0.5)
    if kept.filler == WRITE_MARKERS:
        faults = _joined(faults, _draw_faults(random, WRITING_FAULTS, WRITING_EVENTS, WRITING_MAX, seconds))
    return Script(
        seed, exactly_once=False, is_old_target=random.random() < 0.4, is_old_source=random.random() < 0.3,
        partitions=random.choice((1, 2, 3)), tasks=random.choice((1, 1, 2)), epoch_seconds=random.choice((4, 10, 600)),
        seconds=seconds, faults=faults, rhythm=random.choice((*_RHYTHMS, "floods")), focus=random.randrange(6),
        processes=processes, jobs=has_jobs, has_transactions=random.random() < _KEPT_TRANSACTIONS_SHARE,
        read_committed=random.random() < _KEPT_COMMITTED_SHARE, resizes=random.random() < _RESIZES_SHARE,
        names_stay=random.random() < _NAMES_STAY_SHARE, kept=kept,
    )  # fmt: skip


def _swarm(
    random: Random, faults: Mapping[str, FaultKind], general: Sequence[str], own: Sequence[str]
) -> tuple[list[str], Sequence[str], int]:
    """The faults to choose from, as often as they weigh, the events that they strike at, and how many at most: of the
    events in `general`, and the `own` ones of what the flow does beside its data.

    Two of three histories draw from a few kinds of faults and of events only, so that these meet each other more often
    (swarm testing; Groce et al., ISSTA 2012). In half of them all kinds weigh the same.
    """
    events = (*general, *own)
    names = _weighted(faults)
    if random.random() < 1 / 3:
        return names, events, 8
    kinds = list(faults) if random.random() < 1 / 2 else names
    chosen = {random.choice(kinds) for _ in range(random.randint(2, 5))}
    first = random.choice(own if own and random.random() < 1 / 2 else FREQUENT_EVENTS)
    few = [first, *(random.choice(events) for _ in range(random.randint(0, 3)))]
    return [name for name in kinds if name in chosen], few, 16
