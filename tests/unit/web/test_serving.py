"""The page's address: another process with the same file may have it, and let go of it."""

import socket

import pytest

from sparkmirror.config.flow.settings import StatusSettings
from sparkmirror.config.types import Address
from sparkmirror.errors import EnvironmentProblem
from sparkmirror.web.health import Health
from sparkmirror.web.server import PageKeeper, PageServer


def is_served(address: Address) -> bool:
    try:
        socket.create_connection((address.host, address.port), 5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_the_page_goes_on_in_another_process_when_the_first_ends(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as first:
        first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        first.bind(("127.0.0.1", 0))
        first.listen(1)
        address = Address("127.0.0.1", first.getsockname()[1])
        keeper = PageKeeper(lambda: PageServer(StatusSettings(address), Health()))
        assert "Address already in use. This process serves it as soon as it is free." in caplog.text
        keeper()
    keeper()
    assert is_served(address)
    keeper.close()
    keeper()
    assert not is_served(address)


def test_an_address_that_is_not_this_machines_ends_the_start() -> None:
    with pytest.raises(EnvironmentProblem, match=r"cannot listen at 192\.0\.2\.1:1"):
        PageKeeper(lambda: PageServer(StatusSettings(Address("192.0.2.1", 1), "k7mWq2ZxP9sTb4Vd"), Health()))
