"""The GPU has no memory left.

Symptom: ``Cuda failure 'out of memory'``, ``Failed to CUDA malloc``, ``torch.OutOfMemoryError``.

Why: NCCL needs buffers for each channel and peer, usually some hundred MiB, after the program has taken its share.
Another process on the GPU counts too. Where PyTorch says that more of it is reserved and not allocated than was asked
for, the memory is there, in pieces: it is fragmented.

Not when: bytes of an unknown client reach NCCL's allocator as a size (``[Rem Allocator] Allocation failed``,
bootstrap-mismatch); an allocation fails for another reason that CUDA names (cuda-error); "Cannot allocate memory" from
a verbs call (memlock-limit) or /dev/shm (shm-too-small).

Source: NCCL's alloc.h; PyTorch's CUDACachingAllocator.cpp, which writes the sizes, before 2.1 as "reserved in total".
"""

import re

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.parsers.base import compiled
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, counted, found, warned

_OF_DEVICE = r"\b(?:CUDA|HIP|XPU|NPU|MPS|MUSA)(?: backend)? out of memory\b"
_NO_SIZE = r"Tried to allocate (?:more than 1 ?EB|\d[\d.]* [TPE]i?B)\b"
_SIZE = r"(\d{1,9}(?:\.\d{1,9})?) (bytes|[KMGT]iB)\b"
_ASKED = rf"Tried to allocate {_SIZE}"
_UNALLOCATED = rf"{_SIZE} is reserved by \w+ but unallocated"
_RESERVED, _ALLOCATED = rf"{_SIZE} reserved in total by \w+", rf"{_SIZE} already allocated"
_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_MEMORY = (
    r"(?i)out of memory|ALLOC_FAILED|OOM when|memory for the cache blocks|not enough memory|^Error allocating"
    r"|^Attempting to (?:allocate|reserve)|^Failed to allocate"
)


def check(facts: JobFacts) -> Outcome:
    """Found where CUDA, HIP or PyTorch ran out of GPU memory."""
    events = [
        event
        for event in facts.of("cuda-failure")
        if "out of memory" in event.fields["reason"] and event.origin.level != "INFO"
    ]
    events = [event for event in events if not facts.is_from_unknown_client(event)]
    others = {e.origin.process for e in facts.of("cuda-failure") if "out of memory" not in e.fields["reason"]}
    named = {event.origin.process for event in warned(facts, "gpu-out-of-memory")} - {None}
    if others and not named - others:
        others.add(None)  # the line without NCCL's prefix, such as "last error:", repeats that of a process
    events += [event for event in warned(facts, "gpu-out-of-memory") if event.origin.process not in others]
    events += [event for event in facts.of("device-error") if says_memory(event) and not facts.survived(event)]
    events += [event for event in facts.of("python-error") if _raises_memory(event) and not _is_garbage(event, facts)]
    if not events:
        return CLEAR
    own = events[0].kind in ("python-error", "device-error")
    pieces = next(filter(None, (_in_pieces(event.fields.get("reason", "")) for event in events)), "")
    return found(
        conclude(
            facts,
            sorted(events, key=lambda event: event.origin.sequence),
            severity="critical",
            summary=f"GPU memory is used up{' by the program' if own else ' when NCCL allocates its buffers'}{pieces}",
            actions=("join-memory",) if pieces else (),
            explanation=(
                "The GPU's memory is taken by the program, its cache or another process. This is not a network problem."
            ),
            occurrences=counted(events),
        )
    )


def _in_pieces(reason: str) -> str:
    """``: 8.56 GiB are reserved in pieces, none of 4.35 GiB``; empty where less lies reserved than was asked for."""
    found = compiled(_ASKED).search(reason)
    sizes = [compiled(expression).search(reason) for expression in (_UNALLOCATED, _RESERVED, _ALLOCATED)]
    if found is None:
        return ""
    asked, (spare, reserved, allocated) = _bytes(found), map(_bytes, sizes)
    if spare is None and reserved is not None and allocated is not None:
        spare = reserved - allocated
    if asked is None or spare is None or spare < asked:
        return ""
    return f": {spare / 2**30:.2f} GiB are reserved in pieces, none of {found[1]} {found[2]}"


def _bytes(size: re.Match[str] | None) -> float | None:
    return None if size is None else float(size[1]) * _UNITS[size[2]]


def says_memory(event: Event) -> bool:
    """Whether an error of the device is a lack of memory."""
    return compiled(_MEMORY).search(event.fields["reason"]) is not None


def _raises_memory(event: Event) -> bool:
    """Whether an exception tells of the GPU's memory; Ray's tells of the host's.

    PyTorch up to 1.12 raises RuntimeError, and so do its builds for other devices.
    """
    name = event.fields["name"]
    named = "OutOfMemoryError" in name and not name.startswith("ray.")
    return named or compiled(_OF_DEVICE).search(event.fields["reason"]) is not None


def _is_garbage(event: Event, facts: JobFacts) -> bool:
    """Whether a size that no GPU has is asked for beside a collective that timed out: its result is what was read."""
    return compiled(_NO_SIZE).search(event.fields["reason"]) is not None and bool(facts.of("watchdog-timeout"))


RULE = Rule(
    id="gpu-out-of-memory",
    title="The GPU has no memory left",
    severity="critical",
    actions=("free-gpu-memory",),
    check=check,
)
