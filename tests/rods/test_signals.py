"""A request to stop, and how long what runs may take after it."""

from __future__ import annotations

import os
import signal
import time

import pytest

from rods.signals import GraceOver, StopRequest


@pytest.mark.parametrize("first", [True, False])
def test_a_shorter_grace_holds_whether_it_or_the_signal_is_first(first: bool) -> None:
    with StopRequest() as request, pytest.raises(GraceOver):
        request.grace = 3600.0
        if first:
            request.grace = 0.01
        os.kill(os.getpid(), signal.SIGTERM)
        assert request.asked
        request.grace = 0.01
        time.sleep(60)


def test_the_same_grace_said_again_is_not_begun_again() -> None:
    with StopRequest() as request:
        request.grace = 3600.0
        os.kill(os.getpid(), signal.SIGUSR1)
        left, _ = signal.getitimer(signal.ITIMER_REAL)
        time.sleep(0.01)
        request.grace = 3600.0
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] < left <= 3600.0
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
