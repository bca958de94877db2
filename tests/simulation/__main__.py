"""Searches histories for one that breaks a promise: `make simulate ARGS="--minutes 60"`.

A failing one is shrunk, told as a story, and its seed printed: `--seed N` plays it again. With `--keep` what is left of
it joins the past failures, which `--past` plays.
"""

import argparse
import gc
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from secrets import randbits

from tests.simulation.mutations import mutate

if "--mutation" in sys.argv:
    mutate(sys.argv[sys.argv.index("--mutation") + 1])

from tests.simulation.faults import EVERY_FAULT
from tests.simulation.history import Result, run
from tests.simulation.left_out import left_out
from tests.simulation.scripts import (
    OPEN_FINDINGS,
    PAST_FAILURES,
    Script,
    is_variation,
    past_failures,
    plan,
    read_scripts,
    write_scripts,
)
from tests.simulation.shrink import shrink

_OFTEN, _NEVER_MAX = 5, 6


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets is part of a history
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    options = _options()
    logging.disable(logging.CRITICAL)
    if options.seed is not None:
        script = plan(options.seed)
        result = run(next(_changed([script], options), script), is_told=True)
        small = _tell(result, shrinks=options.shrink)
        if options.keep:
            PAST_FAILURES.write_text(write_scripts([*past_failures(), small.script]))
        return bool(result.problems)
    return _search(options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long to search")
    parser.add_argument("--histories", type=int, help="how many to search, in place of minutes")
    parser.add_argument("--cpu", action="store_true", help="count minutes of the processor, not of the clock")
    parser.add_argument("--seed", type=int, help="play this history alone, and tell it")
    parser.add_argument("--keep", action="store_true", help="with --seed: let it join the past failures")
    parser.add_argument("--past", action="store_true", help="play all past failures, and no others")
    parser.add_argument("--open", action="store_true", help="play the histories that fail, and are open")
    parser.add_argument("--kept", action="store_true", help="play no histories but those of flows that keep offsets")
    parser.add_argument("--left-out", action="store_true", help="play histories of brokers that leave markers out")
    parser.add_argument("--left-in-ledger", action="store_true", help="as --left-out, in the ledger too")
    parser.add_argument("--drawn", action="store_true", help="play no variations of past failures")
    parser.add_argument("--mutation", help="break the protocol, as `tests.simulation.mutations` names it")
    parser.add_argument("--pairs", action="store_true", help="tell at the end which faults met, fault by fault")
    parser.add_argument("--from", dest="first", type=int, default=None, help="seeds from here on, one after another")
    parser.add_argument("--until-found", type=int, default=1, help="how many failing histories end the search")
    parser.add_argument("--no-shrink", dest="shrink", action="store_false", help="tell the history as it was found")
    return parser.parse_args()


def _scripts(options: argparse.Namespace) -> Iterator[Script]:
    if options.past:
        yield from past_failures()
        return
    if options.open:
        yield from read_scripts(OPEN_FINDINGS.read_text())
        return
    seed = randbits(40) if options.first is None else options.first
    while True:
        script = plan(seed)
        if (script.kept is not None or not options.kept) and not (options.drawn and is_variation(seed)):
            yield script
        seed += 1


def _changed(scripts: Iterable[Script], options: argparse.Namespace) -> Iterator[Script]:
    if options.left_out or options.left_in_ledger:
        return left_out(scripts, in_ledger=options.left_in_ledger)
    return iter(scripts)


def _search(options: argparse.Namespace) -> int:
    _rarely_collect_garbage()
    clock = time.process_time if options.cpu else time.monotonic
    began, histories, events, found = clock(), 0, 0, 0
    pairs: Counter[tuple[str, str]] = Counter()
    for script in _changed(_scripts(options), options):
        result = run(script)
        histories += 1
        events += result.events
        pairs.update(result.pairs)
        if result.problems:
            found += 1
            _tell(result, shrinks=options.shrink)
        if found >= options.until_found or _is_over(options, clock() - began, histories):
            break
    seconds = clock() - began
    print(
        f"{histories} histories, {events} events in {seconds:.0f} s ({histories / seconds * 60:.0f} a minute), "
        f"{found} failed"
    )
    print(_coverage(pairs))
    if options.pairs:
        print("\n".join(_pairs_table(pairs)))
    return int(found > 0)


def _is_over(options: argparse.Namespace, seconds: float, histories: int) -> bool:
    if options.past or options.open:
        return False
    return seconds > options.minutes * 60 if options.histories is None else histories >= options.histories


def _coverage(pairs: Counter[tuple[str, str]]) -> str:
    often = sum(count >= _OFTEN for count in pairs.values())
    return (
        f"{len(pairs)} of {len(EVERY_FAULT) ** 2} ordered pairs of faults came within two seconds of each other, "
        f"{often} of them in {_OFTEN} histories and more"
    )


def _pairs_table(pairs: Counter[tuple[str, str]]) -> Iterator[str]:
    """For each fault: how many came before it, how many after it, and which never came before it."""
    yield "| Fault | After | In histories | Before | Never soon after |"
    yield "|---|---|---|---|---|"
    for fault in EVERY_FAULT:
        after = {one: pairs[one, fault] for one in EVERY_FAULT if (one, fault) in pairs}
        before = sum((fault, one) in pairs for one in EVERY_FAULT)
        never = [one for one in EVERY_FAULT if one not in after]
        told = ", ".join(never) if len(never) <= _NEVER_MAX else f"{len(never)} of {len(EVERY_FAULT)}"
        yield f"| {fault} | {len(after)} | {sum(after.values())} | {before} | {told} |"


def _rarely_collect_garbage() -> None:
    """What is imported stays; what a history leaves behind is some thousands of objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


def _tell(result: Result, *, shrinks: bool) -> Result:
    print(f"\nseed {result.script.seed}: {'; '.join(result.problems) or 'all promises held'}", flush=True)
    small = shrink(result, run) if shrinks and result.problems else result
    again = run(small.script, is_told=True)
    script = again.script
    print(f"  exactly once: {script.exactly_once}, old target: {script.is_old_target}, old source: ", end="")
    print(f"{script.is_old_source}, partitions: {script.partitions}, tasks: {script.tasks}, ", end="")
    print(f"epochs of {script.epoch_seconds} s, processes: {script.processes}")
    print(f"  faults: {[(fault.at, fault.name, fault.draw) for fault in script.faults]}")
    print("\n".join(f"  {line[:400]}" for line in again.story), flush=True)
    return small


if __name__ == "__main__":
    sys.exit(main())
