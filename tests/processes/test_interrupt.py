"""Signals: at once while nothing is measured, in order while something is, and given back at the end."""

import os
import signal
from collections.abc import Iterator

import pytest

from raybench.processes.interrupt import Interrupt

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def no_nohup() -> Iterator[None]:
    """The tests themselves may have been started under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", SIGNALS)
def test_before_anything_is_measured_it_raises(number: signal.Signals) -> None:
    with Interrupt().installed() as interrupt:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        assert interrupt.event.is_set()


@pytest.mark.parametrize("number", SIGNALS)
def test_while_measuring_the_first_only_tells_and_the_second_raises(number: signal.Signals) -> None:
    with Interrupt().installed() as interrupt, interrupt.deferred():
        os.kill(os.getpid(), number)
        assert interrupt.event.is_set()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)


def test_handlers_that_ray_put_in_place_are_taken_over_again() -> None:
    with Interrupt().installed() as interrupt:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with interrupt.deferred():
            os.kill(os.getpid(), signal.SIGTERM)
            assert interrupt.event.is_set()


def test_after_measuring_it_raises_again() -> None:
    with Interrupt().installed() as interrupt:
        with interrupt.deferred():
            pass
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_handlers_are_given_back() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with Interrupt().installed():
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_under_nohup_a_lost_session_ends_nothing() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupt().installed() as interrupt, interrupt.deferred():
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interrupt.event.is_set()
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
