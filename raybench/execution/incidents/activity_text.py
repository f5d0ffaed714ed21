"""What ranks were seen to do, as text: the lines that show it, and the whole of it for ``logs/activity.txt``."""

from collections import defaultdict
from collections.abc import Sequence

from diagnostics.findings import Evidence
from raybench.execution.incidents.doing import (
    Seen,
    decisive_frames,
    doing_text,
    frame_text,
    library_text,
    operation_text,
    place_text,
    state_of,
)
from raybench.execution.incidents.incident import numbered

_SHOWN_GROUPS = 6
_QUOTED_RANKS = 3


def explanation_of(ranks: Sequence[Seen]) -> str:
    """What every rank is doing, ranks that do the same together."""
    groups: dict[str, list[int]] = defaultdict(list)
    for one in sorted(ranks, key=lambda one: one.rank):
        between = place_text(one)
        text = doing_text(one)
        groups[text + (f", {between}" if between and state_of(one) != "waiting" else "")].append(one.rank)
    shown = [f"{numbered('rank', numbers)}: {text}" for text, numbers in list(groups.items())[:_SHOWN_GROUPS]]
    if len(groups) > _SHOWN_GROUPS:
        shown.append(f"{len(groups) - _SHOWN_GROUPS} more kinds in logs/activity.txt")
    return f"When the time was over, {'; '.join(shown)}."


def quotes_of(culprits: Sequence[Seen]) -> tuple[Evidence, ...]:
    """The decisive lines of code of the first culprits, and what the kernel says of them."""
    return tuple(quote for one in culprits[:_QUOTED_RANKS] for quote in _quotes(one))


def _quotes(one: Seen) -> list[Evidence]:
    frames = [
        Evidence(
            file=frame.file, line=frame.line, text=f"rank {one.rank} in {frame.function}: {frame.text}".rstrip(": ")
        )
        for frame in decisive_frames(one.activity.stack)
    ]
    return [*frames, Evidence(file="activity.txt", line=0, text=process_text(one))]


def process_text(one: Seen) -> str:
    """``rank 1: process state S, 0.00 s of processor time in 1.2 s, waits in hrtimer_nanosleep``."""
    activity = one.activity
    text = f"rank {one.rank}: process state {activity.states[-1:] or one.position.state}"
    if activity.cpu_seconds is not None:
        text += f", {activity.cpu_seconds:.2f} s of processor time in {activity.window_seconds:.1f} s"
    text += f", waits in {activity.wait_channel}" if activity.wait_channel else ""
    library = library_text(activity.native_stack)
    text += f", in {library}" if library else ""
    return text + (f" (kernel: {' < '.join(activity.kernel_stack[:6])})" if activity.kernel_stack else "")


def activity_text(ranks: Sequence[Seen]) -> str:
    """Everything that was seen, rank by rank."""
    return "\n".join(line for one in ranks for line in _lines(one))


def _lines(one: Seen) -> list[str]:
    activity = one.activity
    lines = [f"rank {one.rank} on {one.node}: {doing_text(one)}", f"  {process_text(one)}"]
    if activity.quiet_seconds is not None:
        lines.append(f"  last moved on in its plan {activity.quiet_seconds:.1f} s before")
    last = [operation_text(made) + (" (inside)" if made.inside else "") for made in activity.operations[-6:]]
    lines += [f"  last operations: {', '.join(last)}"] if last else []
    kept = [operation_text(made) + ("" if made.over else " (not complete)") for made in (activity.recorded or ())[-6:]]
    lines += [f"  PyTorch's record: {', '.join(kept)}"] if kept else []
    lines += ["  Python stack, innermost first:"] if activity.stack else ["  no Python stack came from it"]
    lines += [f"    {frame.file}:{frame.line} {frame_text(frame)}" for frame in activity.stack]
    lines += ["  with the frames of libraries (py-spy):"] if activity.native_stack else []
    lines += [f"    {frame_text(frame)}" for frame in activity.native_stack]
    for stack in activity.other_stacks:
        lines += ["  another thread:", *(f"    {frame.file}:{frame.line} {frame_text(frame)}" for frame in stack)]
    return [*lines, ""]
