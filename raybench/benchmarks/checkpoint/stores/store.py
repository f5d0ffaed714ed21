"""What every storage backend offers, and what they share: its errors, a time limit for each call, its library."""

import contextlib
import importlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

Answer = TypeVar("Answer")


class StoreError(Exception):
    """A storage that cannot be reached, refuses, or does not answer in time. The message says which and why."""


class Store(Protocol):
    """A place for the files of checkpoints. Every method raises StoreError."""

    where: str

    def write(self, name: str, chunks: Iterable[bytes]) -> int:
        """Store a file whole and durably. Returns its bytes."""

    def read(self, name: str, start: int = 0, length: int | None = None) -> bytes:
        """Bytes of a file, fewer where it ends before."""

    def remove(self, name: str) -> None:
        """Remove a file; one that is not there is no error."""


def library_of(name: str, extra: str) -> Any:
    """The library of a backend. Raises StoreError, with what to install, where it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        from raybench.installation import install_advice  # reads package metadata

        advice = install_advice(extra)
        raise StoreError(f"{name} is not installed on this node: {advice}") from error


@contextlib.contextmanager
def named_errors(where: str) -> Iterator[None]:
    """Whatever a storage library raises as a StoreError that names the place."""
    try:
        yield
    except Exception as error:
        raise StoreError(f"{where}: {first_line(error)}") from error


class Heartbeat:
    """When a call that consists of many requests last got on."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """One more request is done."""
        self.last = time.monotonic()


def call_with_timeout(call: Callable[[], Answer], seconds: float, where: str, beat: Heartbeat | None = None) -> Answer:
    """What ``call`` returns. Raises StoreError with its error, or when it takes longer; it then goes on unheard.

    With a ``beat`` that the call renews, the limit counts from its last one.
    """
    beat = beat or Heartbeat()
    answers: list[Answer] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            answers.append(call())
        except BaseException as error:  # noqa: BLE001 - told to the caller
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    while thread.is_alive() and (left := beat.last + seconds - time.monotonic()) > 0:
        thread.join(left)
    if answers:
        return answers[0]
    if errors and isinstance(errors[0], StoreError):
        raise errors[0]
    if errors:
        raise StoreError(f"{where}: {first_line(errors[0])}") from errors[0]
    raise StoreError(f"{where} did not answer within {seconds:g} s")


def first_line(error: BaseException) -> str:
    """The type of an error and its message on one line, cut at 300 characters."""
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
