"""The diagnostics agent on this machine, by itself: for jobs that raybench did not start."""

import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from raybench.errors import UsageError

if TYPE_CHECKING:
    from diagnostics.agent.messages import Clock, Message, Warned
    from diagnostics.agent.sample_file import SampleFile
    from diagnostics.findings import Finding

DEFAULT_INTERVAL_SECONDS = 1.0
DEFAULT_MAX_BYTES = 64 << 20
_ROUNDS_ONCE = 3  # a rate needs two readings
_LEAST_MAX_BYTES = 1 << 20
_SETTLE_SECONDS = 0.2  # in which sources that start together have answered


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """What is sampled. ``once``: a few readings, then the end. ``output`` keeps samples, ``max_bytes`` of them.

    ``stand_back``: this process gets a low priority, and is the first that the kernel ends where memory runs out.
    """

    interval_seconds: float = DEFAULT_INTERVAL_SECONDS
    logs: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()
    folders: tuple[Path, ...] = ()
    output: Path | None = None
    max_bytes: int = DEFAULT_MAX_BYTES
    once: bool = False
    stand_back: bool = False
    proc: Path = Path("/proc")
    sys: Path = Path("/sys")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWarning:
    """A finding, when it was made, and how long its cause had been there. ``shown_by``: series, or a line."""

    at: datetime
    finding: "Finding"
    lasting_seconds: float
    shown_by: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """Whether a source is read; ``reason`` why not."""

    name: str
    available: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedSampling:
    """1 where anything was warned of, 3 where nothing could be sampled or kept as asked, else 0."""

    exit_code: int
    warnings: int
    sources: tuple[SourceState, ...]
    remarks: tuple[str, ...]
    seconds: float


def sample_node(
    options: NodeOptions,
    *,
    on_warning: Callable[[NodeWarning], None] = lambda _: None,
    on_sources: Callable[[Sequence[SourceState]], None] = lambda _: None,
    on_line: Callable[[str], None] | None = None,
    on_remark: Callable[[str], None] = lambda _: None,
) -> FinishedSampling:
    """Sample this machine until interrupted.

    ``on_sources`` is called when the sources have answered for the first time, and whenever one of them comes or goes;
    ``on_line`` gets each message as a line of JSON, ``on_remark`` at once what cannot be kept. Raises UsageError where
    a process is not there, a log is a pipe or a device, or the output cannot be written.
    """
    from diagnostics.agent.agent import Agent
    from diagnostics.agent.options import SHORTEST_INTERVAL_SECONDS, AgentOptions
    from diagnostics.agent.priority import stand_back

    if not SHORTEST_INTERVAL_SECONDS <= options.interval_seconds <= 3600:
        raise UsageError(f"--interval is from {SHORTEST_INTERVAL_SECONDS} to 3600 seconds")
    missing = [pid for pid in options.pids if not (options.proc / str(pid)).is_dir()]
    if missing:
        raise UsageError(f"there is no process {missing[0]} on this machine")
    odd = [one for one in options.logs if Path(one).exists() and not (Path(one).is_file() or Path(one).is_dir())]
    if odd:
        raise UsageError(f"--log '{odd[0]}' is not a file: it would be waited for, and no other log followed meanwhile")
    listener = _Listener(on_warning, on_sources, on_line, _sample_file(options), on_remark)
    agent = Agent(
        AgentOptions(
            host=socket.gethostname(),
            interval_seconds=options.interval_seconds,
            pids=options.pids,
            logs=options.logs,
            folders=options.folders,
            proc=options.proc,
            sys=options.sys,
        ),
        listener.hear,
        listener.ended,
    )
    if options.stand_back:
        stand_back()
    try:
        agent.run(rounds=_ROUNDS_ONCE if options.once else None)
    except KeyboardInterrupt:
        agent.stop()
    return listener.finish()


def _sample_file(options: NodeOptions) -> "SampleFile | None":
    from diagnostics.agent.sample_file import SampleFile

    if options.output is None:
        return None
    if options.max_bytes < _LEAST_MAX_BYTES:
        raise UsageError(f"--max-bytes is at least {_LEAST_MAX_BYTES}")
    try:
        return SampleFile(options.output, options.max_bytes)
    except OSError as error:
        raise UsageError(f"{options.output} cannot be written: {error.strerror}") from error


@dataclass(slots=True)
class _Listener:
    """Hands messages on to whoever asked for them."""

    on_warning: Callable[[NodeWarning], None]
    on_sources: Callable[[Sequence[SourceState]], None]
    on_line: Callable[[str], None] | None
    file: "SampleFile | None"
    on_remark: Callable[[str], None]
    ended: threading.Event = field(default_factory=threading.Event)
    _sources: dict[str, SourceState] = field(default_factory=dict)
    _news_since: float | None = None  # of sources, not yet handed on
    _warnings: int = 0
    _clock: "Clock | None" = None
    _remarks: list[str] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)
    _has_read: bool = False  # anything but how the agent itself is

    def hear(self, message: "Message") -> None:
        from diagnostics.agent.messages import Clock, Reading, Source, Warned, encode

        self._keep(message)
        if self.on_line is not None:
            self.on_line(encode(message))
        match message:
            case Clock():
                self._clock = message
            case Source(name=name, available=available, reason=reason):
                self._sources[name] = SourceState(name=name, available=available, reason=reason)
                self._news_since = message.monotonic_seconds
            case Warned():
                self._warn(message)
            case Reading():
                self._has_read = self._has_read or any(not name.startswith("agent/") for name in message.values)
                if self._news_since and message.monotonic_seconds > self._news_since + _SETTLE_SECONDS:
                    self._news_since = None
                    self.on_sources(tuple(self._sources.values()))
            case _:
                pass

    def _warn(self, message: "Warned") -> None:
        self._warnings += message.finding.severity != "info"
        offset = self._clock.wall_seconds - self._clock.monotonic_seconds if self._clock else time.time()
        self.on_warning(
            NodeWarning(
                at=datetime.fromtimestamp(offset + message.monotonic_seconds, UTC),
                finding=message.finding,
                lasting_seconds=max(message.monotonic_seconds - message.since_seconds, 0),
                shown_by=message.series or ((message.line,) if message.line else ()),
            )
        )

    def _keep(self, message: "Message") -> None:
        if self.file is None:
            return
        try:
            self.file.write(message)
        except OSError as error:
            self._remarks.append(f"samples are no longer kept: {error.strerror}")
            self.on_remark(self._remarks[-1])
            self.file = None

    def finish(self) -> FinishedSampling:
        if self.file is not None:
            try:
                self.file.close()
            except OSError as error:
                self._remarks.append(f"samples are not kept whole: {error.strerror}")
                self.on_remark(self._remarks[-1])
        sources = tuple(self._sources.values())
        return FinishedSampling(
            exit_code=1 if self._warnings else 3 if not self._has_read or self._remarks else 0,
            warnings=self._warnings,
            sources=sources,
            remarks=tuple(self._remarks),
            seconds=time.monotonic() - self._began,
        )
