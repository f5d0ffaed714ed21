"""How a rank's process ended, and how far ranks came that were only slow, in a person's words."""

import contextlib
import signal

from raybench.benchmarks.events import RankExited
from raybench.benchmarks.registry import labels_of, workload_of
from raybench.benchmarks.spec import BenchmarkSpec


def at_work_text(spec: BenchmarkSpec | None, *, points: int, steps: int, world_size: int, limit_seconds: float) -> str:
    """That the limit was too short: how much of the benchmark was done, and how long all takes at that rate.

    ``points``: measured so far; ``steps``: timed steps of a training.
    """
    if spec is None:
        return "and the ranks were still at work; raise --timeout or ask for fewer --sizes"
    workload = workload_of(spec.kind)
    advice = f"raise --timeout or ask for fewer {workload.fewer}"
    done, total, noun = points, len(labels_of(spec, world_size)), "points"
    timed = workload.timed_steps(spec)
    if timed is not None:
        done, total, noun = steps, timed, "timed steps"
    if not 0 < done < total:
        return f"and the ranks were still at work; {advice}"
    needed = limit_seconds * total / done
    return (
        f"and the ranks were still at work ({done} of {total} {noun} were done; at that rate all take about "
        f"{needed:.0f} s); {advice}"
    )


def ending_text(event: RankExited) -> str:
    """Which signal or status ended a rank, with what was said last."""
    if event.code < 0:
        with contextlib.suppress(ValueError):
            name = signal.Signals(-event.code).name
            hint = " (the kernel does this when memory runs out: see dmesg)" if name == "SIGKILL" else ""
            last = _last_words(event.output_tail) if name == "SIGABRT" else ""
            return f"the process was killed by {name}{hint}{last}"
    tail = event.output_tail.strip().splitlines()
    return f"the process ended with status {event.code}" + (f": {tail[-1][:200]}" if tail else "")


def _last_words(tail: str) -> str:
    """What a library said as it ended the process: ``what():  ... op.preamble.length <= op.nbytes. 65536 vs 32768``."""
    said = [
        line.strip().removeprefix("what():").strip() for line in tail.splitlines() if line.strip().startswith("what():")
    ]
    return f": {said[-1][:300]}" if said else ""
