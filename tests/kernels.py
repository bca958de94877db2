"""Waits until compiled code is loaded, for tests whose outcome must not depend on when that is."""

from tests.waiting import wait_until

from sparkmirror.batch.loading import kernels_ready

_SECONDS_MAX = 200
"""They are compiled once a machine."""


def load_kernels() -> None:
    wait_until(kernels_ready, "kernels are loaded", _SECONDS_MAX)
