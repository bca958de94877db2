"""Ports: free, distinct, and reserved until given back."""

import socket

import pytest

from sparkmirror.errors import EnvironmentProblem
from sparkmirror.testing import ports
from sparkmirror.testing.ports import PortReservation


def test_reserved_ports_are_distinct_and_a_broker_can_take_them() -> None:
    with PortReservation(5) as reservation:
        assert len(set(reservation.ports)) == 5
        for port in reservation.ports:
            with socket.socket() as server:
                # As Java's server sockets: connections of a broker that was there may still be closing.
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                server.bind(("127.0.0.1", port))
                server.listen()


def test_a_reserved_port_is_refused_to_others_until_it_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with PortReservation(1) as reservation:
        [port] = reservation.ports
        monkeypatch.setattr(ports, "PORTS", range(port, port + 1))
        with pytest.raises(EnvironmentProblem, match=rf"from {port} to {port} are free"):
            PortReservation(1)
    with PortReservation(1) as again:
        assert again.ports == (port,)


def test_a_port_that_somebody_serves_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        monkeypatch.setattr(ports, "PORTS", range(port, port + 1))
        with pytest.raises(EnvironmentProblem):
            PortReservation(1)
