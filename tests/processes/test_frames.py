"""Messages of a pipe: whole ones as they come, and never a wait for the rest of one."""

import multiprocessing
import os
import signal
import struct
import time
from multiprocessing.connection import Connection

import pytest

from raybench.processes.frames import Frames

_FORK = multiprocessing.get_context("fork")


def test_messages_of_any_length_come_as_they_were_sent() -> None:
    here, there = _FORK.Pipe(duplex=False)
    frames = Frames(here.fileno())
    assert frames.read() == []
    sent = [b"", b"a", b"b" * 20_000]
    for one in sent:
        there.send_bytes(one)
    assert frames.read() == sent
    there.close()
    with pytest.raises(EOFError):
        frames.read()


def test_a_message_is_complete_with_its_last_byte_and_not_before() -> None:
    here, there = os.pipe()
    frames = Frames(here)
    data = struct.pack("!i", 3) + b"one" + struct.pack("!iQ", -1, 4) + b"long"
    got = []
    for number in range(len(data)):
        os.write(there, data[number : number + 1])
        got.append(frames.read())
    assert [(number, found) for number, found in enumerate(got) if found] == [(6, [b"one"]), (len(data) - 1, [b"long"])]
    os.close(here)
    os.close(there)


def _send(there: Connection) -> None:
    there.send_bytes(b"x" * 2**20)  # more than a pipe holds


def test_a_sender_that_is_stopped_in_the_middle_of_a_message_keeps_nobody_waiting() -> None:
    here, there = _FORK.Pipe(duplex=False)
    frames = Frames(here.fileno())
    sender = _FORK.Process(target=_send, args=(there,))
    sender.start()
    there.close()
    assert sender.pid is not None
    try:
        assert here.poll(60)
        os.kill(sender.pid, signal.SIGSTOP)
        os.waitpid(sender.pid, os.WUNTRACED)
        for _ in range(3):
            assert frames.read() == []
        os.kill(sender.pid, signal.SIGCONT)
        got: list[bytes] = []
        deadline = time.monotonic() + 60
        while not got and time.monotonic() < deadline:
            got = frames.read()
        assert got == [b"x" * 2**20]
    finally:
        sender.kill()
        sender.join()
