"""A signal that arrives at any moment of a wait ends it: `threading.Event` hangs within 15 s of this test's rounds."""

import signal
import subprocess
import sys
import threading
import time

import pytest

from sparkmirror.stop_request import StopRequest, stop_signals

ROUNDS = """
import os, signal
from sparkmirror.stop_request import StopRequest
for round in range(5000):
    stop = StopRequest()
    signal.signal(signal.SIGALRM, lambda *_: stop.set())
    signal.setitimer(signal.ITIMER_REAL, 0.00002 + round % 97 * 1e-6)
    while not stop.wait(0.0):
        pass
    stop.close()
print("all rounds ended")
"""


def test_a_signal_handler_may_ask_to_stop_at_any_moment_of_a_wait() -> None:
    done = subprocess.run([sys.executable, "-c", ROUNDS], capture_output=True, text=True, timeout=240)
    assert done.stdout == "all rounds ended\n", done.stderr


def test_a_wait_ends_with_the_request_and_with_its_time() -> None:
    stop = StopRequest()
    assert not stop.wait(0.001)
    asker = threading.Timer(0.01, stop.set)
    asker.start()
    began = time.monotonic()
    assert stop.wait(120)
    assert time.monotonic() - began < 60
    asker.join()
    stop.close()


def test_a_second_interrupt_interrupts_and_the_handlers_of_before_come_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with stop_signals() as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
