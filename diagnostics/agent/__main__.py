"""``python -m diagnostics.agent``: the agent of a machine, as its messages on standard output.

With ``--control`` it is told of processes and logs by lines of JSON on standard input (``messages.Watch``), and ends
with it: whoever started it need not outlive it.
"""

import argparse
import contextlib
import ctypes
import math
import os
import signal
import socket
import sys
import threading
from pathlib import Path

from diagnostics.agent.agent import Agent
from diagnostics.agent.message_reader import MAX_LINE_BYTES, decode_watch
from diagnostics.agent.options import INTERVAL_SECONDS, SHORTEST_INTERVAL_SECONDS, AgentOptions
from diagnostics.agent.outlet import Outlet
from diagnostics.agent.priority import stand_back
from diagnostics.errors import BadMessageError
from diagnostics.signal_event import SignalEvent

_PR_SET_PDEATHSIG = 1
_LAST_WORDS_SECONDS = 1.0


def main(arguments: list[str] | None = None) -> int:
    """Run until INT, TERM, the end of the reader, or with ``--control`` of standard input."""
    parsed = _parser().parse_args(arguments)
    stand_back()
    agent, outlet = _agent_of(parsed)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: agent.stop())
    if parsed.control:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # it ends with its parent even if it is stopped
        threading.Thread(target=_obey, args=(agent,), name="agent-control", daemon=True).start()
    agent.run(rounds=parsed.rounds)
    outlet.close(_LAST_WORDS_SECONDS)
    sys.stdout.flush()
    os._exit(0)  # a thread that is stuck in the kernel is not waited for


def _agent_of(parsed: argparse.Namespace) -> tuple[Agent, Outlet]:
    options = AgentOptions(
        host=parsed.host or socket.gethostname(),
        interval_seconds=parsed.interval,
        pids=tuple(parsed.pid),
        logs=tuple(parsed.log),
        folders=tuple(parsed.folder),
        proc=parsed.proc,
        sys=parsed.sys,
    )
    stop_asked = SignalEvent()
    outlet = Outlet(_write, stop_asked.set)
    return Agent(options, outlet.send, stop_asked, lambda: outlet.dropped), outlet


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m diagnostics.agent", description=__doc__)
    parser.add_argument("--interval", type=_interval, default=INTERVAL_SECONDS, metavar="SECONDS")
    parser.add_argument("--pid", type=int, action="append", default=[], help="the process of a rank; may be repeated")
    parser.add_argument("--log", action="append", default=[], help="an NCCL log, a folder or a glob; may be repeated")
    parser.add_argument("--folder", type=Path, action="append", default=[], help="must not run full; may be repeated")
    parser.add_argument("--host", default="", help="the name of this machine in findings")
    parser.add_argument("--control", action="store_true", help="obey standard input, and end with it")
    parser.add_argument("--rounds", type=int, help="end after so many intervals")
    parser.add_argument("--proc", type=Path, default=Path("/proc"), help="where /proc is")
    parser.add_argument("--sys", type=Path, default=Path("/sys"), help="where /sys is")
    return parser


def _interval(text: str) -> float:
    seconds = float(text)
    if not (math.isfinite(seconds) and seconds >= SHORTEST_INTERVAL_SECONDS):
        raise argparse.ArgumentTypeError(f"at least {SHORTEST_INTERVAL_SECONDS} seconds")
    return seconds


def _obey(agent: Agent) -> None:
    for line in iter(lambda: sys.stdin.buffer.readline(MAX_LINE_BYTES), b""):
        with contextlib.suppress(BadMessageError):
            agent.watch(decode_watch(line))
    agent.stop()


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
