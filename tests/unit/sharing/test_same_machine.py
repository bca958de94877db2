"""A process that was killed need not be waited for by those of its own machine, and nobody else is judged."""

import subprocess
import sys
from uuid import uuid4

from sparkmirror.sharing.same_machine import is_dead_neighbour, own_mark


def test_only_a_process_of_this_machine_that_is_gone_counts_as_dead() -> None:
    mine = f"sparkmirror-{own_mark()}"
    head, machine, _, _ = mine.rsplit("-", 3)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert not is_dead_neighbour(mine), "it lives"
    assert is_dead_neighbour(f"{head}-{machine}-{ended.pid}-1700000000000")
    assert is_dead_neighbour(f"{head}-{machine}-{ended.pid}-1700000000000-{uuid4()}"), "by its member id"
    assert not is_dead_neighbour(f"{mine}-{uuid4()}")
    assert is_dead_neighbour(mine[:-1] + ("0" if mine[-1] != "0" else "1")), "its number went to another process"
    assert not is_dead_neighbour(f"{head}-00000000-{ended.pid}-1700000000000"), "of another machine"
    assert not is_dead_neighbour("sparkmirror-heartbeats")


def test_a_process_may_have_any_name_and_a_client_any_number() -> None:
    """The system cuts names at 15 bytes, within a letter too; and a client chooses its id itself."""
    name = "a mirrors of Zürich".encode()[:15]
    named = f"import ctypes, sys; ctypes.CDLL(None).prctl(15, {name!r}); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", named], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline()
        head, machine, _, _ = f"sparkmirror-{own_mark()}".rsplit("-", 3)
        assert is_dead_neighbour(f"{head}-{machine}-{child.pid}-1"), "its number went to this one"
        assert is_dead_neighbour(f"{head}-{machine}-99999999999999999999-1")
        child.communicate()
