"""NCCL's RAS service is asked where one of our ranks listens, and nobody else's is believed."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from raybench.execution.ranks.nccl_ras import ras_report

ANSWER = b"SERVER PROTOCOL 2\nOK\nNCCL version 2.27.5\nErrors\n#0-0 (5c5ff4ac0d7f5b43) INCOMPLETE\n"


@contextmanager
def service(answer: bytes | None) -> Iterator[tuple[int, list[bytes]]]:
    """A service in this process; it never answers where ``answer`` is None."""
    heard: list[bytes] = []
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)

        def serve() -> None:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # nobody came
            with connection:
                while not b"".join(heard).endswith(b"STATUS\n"):
                    heard.append(connection.recv(1024))
                if answer is None:
                    over.wait(60)
                else:
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1], heard
        over.set()


def test_the_service_of_an_own_rank_is_asked_as_ncclras_asks_it() -> None:
    with service(ANSWER) as (port, heard):
        assert ras_report([1, os.getpid()], f"127.0.0.1:{port}") == (os.getpid(), ANSWER.decode())
    assert b"".join(heard) == b"CLIENT PROTOCOL 2\nTIMEOUT 2\nVERBOSE STATUS\n"


def test_a_service_of_another_process_says_nothing_of_this_run() -> None:
    with service(ANSWER) as (port, heard):
        assert ras_report([1, os.getppid()], f"127.0.0.1:{port}") is None
    assert not heard


def test_a_service_that_does_not_answer_costs_seconds() -> None:
    begun = time.monotonic()
    with service(None) as (port, _):
        assert ras_report([os.getpid()], f"127.0.0.1:{port}") is None
    assert time.monotonic() - begun < 30


def test_an_answer_without_end_is_cut() -> None:
    with service(b"x" * 2**20) as (port, _):
        found = ras_report([os.getpid()], f"127.0.0.1:{port}")
    assert found is not None
    assert len(found[1]) == 2**18


def test_where_nobody_listens_nobody_is_asked() -> None:
    assert ras_report([os.getpid()], "localhost:1") is None
    assert ras_report([os.getpid()], "no address") is None
