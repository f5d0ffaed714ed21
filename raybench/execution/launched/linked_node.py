"""A node of ranks that a launcher started: asked as one, it asks the process of each of its ranks."""

import concurrent.futures
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import msgspec

from raybench.benchmarks.events import RankExited, encode
from raybench.benchmarks.rank.assignment import RankAssignment
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.execution.launched.links import Link
from raybench.execution.launched.messages import Reply
from raybench.execution.node_actors.answers import AnswerError, decode_answer, encode_answer
from raybench.execution.node_actors.calls import CallError

_OF_NODE = frozenset({"facts", "traffic", "reserve_port", "start_agent", "end_agent", "clock"})
_ANSWER_SECONDS = 130.0  # longer than whoever asks waits
_SILENT_SECONDS = 10.0
_LOOK_SECONDS = 0.05
_UNKNOWN_CODE = 255
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_START = msgspec.msgpack.Decoder(tuple[tuple[RankAssignment, ...], tuple[BenchmarkSpec, ...]])


class FutureCalls:
    """Waits for answers of linked nodes: see ``Calls``."""

    errors: tuple[type[Exception], ...] = (CallError, AnswerError, TimeoutError)

    def wait(self, references: Sequence[Any], count: int, seconds: float) -> tuple[list[Any], list[Any]]:
        """See Calls."""
        deadline = time.monotonic() + seconds
        while True:
            ready = [one for one in references if one.done()]
            left = deadline - time.monotonic()
            if len(ready) >= count or left <= 0:
                return ready, [one for one in references if one not in ready]
            waiting = [one for one in references if not one.done()]
            concurrent.futures.wait(waiting, timeout=left, return_when=concurrent.futures.FIRST_COMPLETED)

    def result(self, reference: Any, seconds: float | None = None) -> Any:
        """See Calls."""
        return reference.result(seconds)


class LinkedNode:
    """The ranks' processes of one node, by local rank. Called as a Ray actor is: ``node.answer.remote("facts")``."""

    def __init__(self, links: Sequence[Link]) -> None:
        self.links = tuple(links)
        self.answer = self
        self._calls = ThreadPoolExecutor(4, thread_name_prefix=f"node-of-rank-{links[0].hello.rank}")
        self._told: set[int] = set()  # ranks whose end was said

    def remote(self, question: str, *arguments: Any) -> "Future[bytes]":
        """Ask, and return at once."""
        return self._calls.submit(self._answer, question, arguments)

    def close(self) -> None:
        """Let go of all its processes."""
        self._calls.shutdown(wait=False, cancel_futures=True)
        for link in self.links:
            link.close()

    def _answer(self, question: str, arguments: tuple[Any, ...]) -> bytes:
        if question == "poll":
            return encode_answer(self._poll(*arguments))
        if question == "start":
            return self._start(*arguments)
        if question in _OF_NODE:
            return self._first(question, arguments)
        return encode_answer(self._of_all(question, arguments))

    def _poll(self, seconds: float) -> list[bytes]:
        """Events of all ranks by now; of a rank whose process has ended without a word, that it has."""
        deadline = time.monotonic() + seconds
        while True:
            found = [data for link in self.links for data in _taken(link.events)] + self._ended()
            if found or time.monotonic() > deadline:
                break
            time.sleep(_LOOK_SECONDS)
        self._miss_silent()
        return found

    def _ended(self) -> list[bytes]:
        ended = []
        for link in self.links:
            rank = link.hello.rank
            if link.problem is not None and link.events.empty() and rank not in self._told:
                self._told.add(rank)
                ended.append(encode(RankExited(rank=rank, code=_UNKNOWN_CODE, output_tail=link.problem)))
        return ended

    def _miss_silent(self) -> None:
        silent = [link for link in self.links if not link.gone and link.silent_seconds() > _SILENT_SECONDS]
        if silent:
            raise CallError(
                f"the process of rank {silent[0].hello.rank} has been silent for {silent[0].silent_seconds():.0f} s"
            )

    def _start(self, encoded: bytes, variables: dict[str, str | None], log_limit_bytes: int) -> bytes:
        """Each process starts its own rank, and sees the GPUs that its launcher gave it."""
        assignments, plan = _START.decode(encoded)
        own = {name: value for name, value in variables.items() if name != _VISIBLE}
        for link, assignment in zip(self.links, assignments, strict=True):
            part = msgspec.msgpack.encode(((assignment,), plan))
            if not link.gone:
                link.ask("start", (part, own, log_limit_bytes))
        return encode_answer(None)

    def _first(self, question: str, arguments: tuple[Any, ...]) -> bytes:
        link = next((one for one in self.links if not one.gone), self.links[0])
        return _data_of(question, link, link.ask(question, arguments))

    def _of_all(self, question: str, arguments: tuple[Any, ...]) -> Any:
        """The answers of all that still live, put together. Raises CallError where none does."""
        asked = [(link, link.ask(question, arguments)) for link in self.links if not link.gone]
        if not asked:
            raise CallError(self.links[0].problem or "all its processes have ended")
        answers = [decode_answer(question, _data_of(question, link, waiting)) for link, waiting in asked]
        merge = _MERGED.get(type(answers[0]))
        return merge(answers) if merge else None


_MERGED: dict[type, Callable[[list[Any]], Any]] = {
    list: lambda lists: [item for one in lists for item in one],
    dict: lambda parts: {name: value for one in parts for name, value in one.items()},
}


def _data_of(question: str, link: Link, waiting: "queue.SimpleQueue[Reply]") -> bytes:
    try:
        reply = waiting.get(timeout=_ANSWER_SECONDS)
    except queue.Empty:
        raise CallError(f"rank {link.hello.rank} did not answer to '{question}'") from None
    if reply.data is None:
        raise CallError(reply.error or "no answer")
    return reply.data


def _taken(events: "queue.SimpleQueue[bytes]") -> list[bytes]:
    found = []
    while not events.empty():
        found.append(events.get())
    return found
