"""Signals: at once while nothing is measured, in order while something is, and given back at the end."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from diagnostics.signal_event import SignalEvent
from raybench.processes.interrupt import Interrupt

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def no_nohup() -> Iterator[None]:
    """The tests themselves may have been started under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def python(code: str, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=50)


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


def test_a_signal_while_the_main_thread_goes_to_wait_or_comes_back_stops_nothing() -> None:
    """``threading.Event`` would stand still for ever within some hundred signals: its lock is taken to wait."""
    code = """
import os, signal, threading, time
from diagnostics.signal_event import SignalEvent
from raybench.processes.interrupt import Interrupt

def send():
    for _ in range(4000):
        os.kill(os.getpid(), signal.SIGTERM)

for _ in range(5):
    with Interrupt().installed() as interrupt, interrupt.counting():
        thread = threading.Thread(target=send)
        thread.start()
        while thread.is_alive():
            interrupt.event.wait(0)
            interrupt.event._over = False
        assert interrupt.received
print("over")
"""
    ended = python(code)
    assert ended.stdout == "over\n", ended.stderr


def test_a_signal_that_another_thread_takes_ends_the_wait_of_the_main_thread() -> None:
    """Nothing wakes the main thread then, as where the signal comes in the moment before it waits."""
    code = """
import os, signal, threading, time
from raybench.processes.interrupt import Interrupt

with Interrupt().installed() as interrupt, interrupt.deferred():
    taker = threading.Thread(target=time.sleep, args=(600,), daemon=True)
    taker.start()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Timer(0.2, lambda: signal.pthread_kill(taker.ident, signal.SIGTERM)).start()
    begun = time.monotonic()
    print(interrupt.event.wait(45), time.monotonic() - begun < 30)
"""
    assert python(code).stdout == "True True\n"


LOST = """
import os, signal, sys, time
from raybench.processes.lost_interrupt import send_lost_interrupts_again

class Dropped:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)

signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.default_int_handler)
if sys.argv[1] == "again":
    send_lost_interrupts_again()
try:
    Dropped()
    time.sleep(float(sys.argv[2]))
    print("lost")
except KeyboardInterrupt:
    print("stopped")
"""


@pytest.mark.parametrize(("how", "seconds", "said"), [("again", "30", "stopped\n"), ("once", "0.2", "lost\n")])
def test_an_interrupt_that_python_drops_is_sent_again(how: str, seconds: str, said: str) -> None:
    ended = python(LOST, how, seconds)
    assert ended.stdout == said
    assert ("Exception ignored" in ended.stderr) == (how == "once")


def test_other_exceptions_that_python_drops_are_printed_as_ever() -> None:
    code = LOST.replace("os.kill(os.getpid(), signal.SIGTERM)", "1 / 0")
    ended = python(code, "again", "0")
    assert ended.stdout == "lost\n"
    assert "ZeroDivisionError" in ended.stderr


def test_an_event_wakes_all_that_wait() -> None:
    event = SignalEvent()
    assert not event.wait(0.01)
    assert not event.wait(-1)
    threads = [threading.Thread(target=event.wait, args=(120,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    event.set()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert event.wait()
