"""Who must go when a port is full, and when."""

import random
from typing import Any

import pytest

from sparkmirror.web.arrivals import HEADER_SECONDS_MAX, Arrival, Arrivals, peer_of


def enter(arrivals: Arrivals, peer: str, now: float = 0.0) -> tuple[Arrival, Arrival | None]:
    """As the door does: who must go leaves at once."""
    arrival = Arrival(peer, now)
    going = arrivals.enter(arrival)
    if going is not None:
        arrivals.leave(going)
    return arrival, going


def test_a_peer_that_has_its_share_puts_out_its_own_longest_wait() -> None:
    arrivals = Arrivals(20)
    other, _ = enter(arrivals, "b")
    first, *crowd = (enter(arrivals, "a")[0] for _ in range(20))
    assert enter(arrivals, "a")[1] is first
    arrivals.ask(crowd[0])
    assert enter(arrivals, "a")[1] is crowd[1]
    assert len(arrivals) == 21 and arrivals.late(HEADER_SECONDS_MAX)[0] is other


def test_clients_that_are_being_answered_stay_and_a_few_more_may_come_with_probes() -> None:
    arrivals = Arrivals(20)
    for _ in range(20):
        arrivals.ask(enter(arrivals, "a")[0])
    probes = [enter(arrivals, "a") for _ in range(16)]
    assert {going for _, going in probes} == {None}
    assert enter(arrivals, "a")[1] is probes[0][0]


def test_with_too_many_waiting_the_peer_with_the_most_loses_one() -> None:
    arrivals = Arrivals(16, waiting_max=4)
    probe, _ = enter(arrivals, "kubelet")
    crowd = [enter(arrivals, "a")[0] for _ in range(3)]
    assert enter(arrivals, "b")[1] is crowd[0]
    assert enter(arrivals, "c")[1] is crowd[1]
    assert probe in arrivals.late(HEADER_SECONDS_MAX)


def test_a_wait_is_over_after_five_seconds_and_begins_again_when_answered() -> None:
    arrivals = Arrivals(9)
    one, _ = enter(arrivals, "a", now=10.0)
    assert arrivals.late(10.0 + HEADER_SECONDS_MAX - 0.1) == []
    assert arrivals.late(10.0 + HEADER_SECONDS_MAX) == [one]
    arrivals.ask(one)
    assert arrivals.late(99.0) == []
    arrivals.answered(one, 99.0)
    assert arrivals.late(99.0) == [] and arrivals.late(99.0 + HEADER_SECONDS_MAX) == [one]
    arrivals.leave(one)
    assert len(arrivals) == 0


def test_whatever_happens_nobody_is_counted_twice_or_put_out_while_answered() -> None:
    chance = random.Random(15)
    arrivals = Arrivals(16, waiting_max=24)
    inside: list[Any] = []
    asking: set[Any] = set()
    for step in range(20_000):
        one = chance.choice(inside) if inside else None
        match chance.randrange(5):
            case 0 if one:
                arrivals.ask(one)
                asking.add(one)
            case 1 if one:
                arrivals.answered(one, float(step))
                asking.discard(one)
            case 2 if one:
                arrivals.leave(one)
                inside.remove(one)
                asking.discard(one)
            case _:
                before = len(inside) - len(asking)
                arrival, going = enter(arrivals, chance.choice("abcdefgh"), float(step))
                inside.append(arrival)
                if going is not None:
                    assert going not in asking and going is not arrival
                    inside.remove(going)
                assert len(inside) - len(asking) <= max(before, 24), "a newcomer makes no more than there may be"
        assert len(arrivals) == len(inside)
        assert set(arrivals.late(step + HEADER_SECONDS_MAX)) == {one for one in inside if one not in asking}


@pytest.mark.parametrize(
    ("host", "peer"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", ""),
    ],
)
def test_a_peer_is_an_address_or_a_network_of_ipv6(host: str, peer: str) -> None:
    assert peer_of(host) == peer
