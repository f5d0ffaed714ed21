"""A CUDA or HIP error that NCCL came across.

Symptom: ``Cuda failure 700 'an illegal memory access was encountered'``; ``no kernel image is available``;
``initialization error``; what a framework says of it (``CUDA error: ...``, ``CUBLAS_STATUS_...``), or the driver
(``Xid 79``, a fatal ``SXid`` of an NVSwitch), which goes before the errors of CUDA that follow from it.

Why: errors of kernels are reported by the next call, whoever makes it. An illegal access or launch failure is the
program's; others name driver, architecture, fork after CUDA, or a wrong device number.

Not when: the reason is memory (gpu-out-of-memory); the line is informational; a program says it before it goes on to
work, as TensorFlow does where it finds no GPU for itself.

Source: CUDA runtime API, error handling.
"""

from diagnostics.events import Event
from diagnostics.facts import JobFacts
from diagnostics.parsers.base import compiled
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, counted, found, stopped_at, warned
from diagnostics.rules.node.gpu_out_of_memory import says_memory
from diagnostics.rules.node.nvls_failed import failures_of_multicast

_OF_CONTAINER = "nvidia-container-cli"
_MEANING = (
    (
        _OF_CONTAINER,
        (
            "The container was not given a GPU: the driver of its host is not loaded, or it and the container toolkit "
            "do not fit. No call of CUDA was made."
        ),
    ),
    ("libnvidia-ml", "The driver's library is not there: a container that was started without the GPUs' runtime."),
    ("version mismatch", "The driver was updated while its old module is loaded: reload it, or restart the host."),
    ("GPU is lost", "The GPU no longer answers on PCIe; the hardware needs attention."),
    ("illegal", "An earlier kernel of the program read or wrote where it must not; NCCL only saw the error first."),
    ("unspecified launch failure", "An earlier kernel of the program crashed; NCCL only saw the error first."),
    ("Assertion", "An assertion in a kernel of the program failed, such as an index out of range."),
    ("device-side assert", "An assertion in a kernel of the program failed, such as an index out of range."),
    ("driver version is insufficient", "The driver is older than the CUDA version that NCCL was built with."),
    ("no kernel image", "This NCCL was not built for the GPU's architecture."),
    ("named symbol not found", "This NCCL was not built for the GPU's architecture."),
    ("initialization error", "CUDA was used before a fork; start the workers with spawn."),
    ("in forked subprocess", "CUDA was used before a fork; start the workers with spawn."),
    ("invalid device ordinal", "The local rank is larger than the number of visible GPUs."),
    ("CUDA driver", "The driver is older than what this NCCL needs for what the program asks of it: update it."),
    ("prior to CUDA", "This NCCL was built with a CUDA older than what the setting needs: unset NCCL_CUMEM_*."),
    ("maxSharedMem", "This NCCL does not know the GPU, or the driver lets a kernel have less than it takes: update."),
    ("driver on your system", "The driver is absent or older than the CUDA version that the program was built with."),
    ("802", "The GPUs of this machine need the fabric manager (nvidia-fabricmanager), which is not ready."),
    (
        "peer access",
        "The program copies between GPUs directly, which these do not allow: turn off its own all-reduce.",
    ),
    ("peer mapping", "A GPU maps at most eight others: fewer GPUs of one process, or NVSwitch, are needed."),
    ("fallen off the bus", "The GPU no longer answers on PCIe; the hardware needs attention."),
    ("SXid", "An NVSwitch reports a fault of a link that ends there, or of its own; all GPUs behind it are concerned."),
    ("Xid", "The driver reports a fault of the GPU; its number says which (NVIDIA's list of Xid errors)."),
    ("NOT_INITIALIZED", "A library of CUDA could not begin, mostly for want of GPU memory, or after an earlier error."),
    ("ECC", "The GPU's memory has an error that cannot be corrected; the hardware needs attention."),
)

_OF_HARDWARE = r"(?i)uncorrectable ECC|GPU is lost|off the bus|\bnvlink\b.*error"
_OF_SETUP = r"(?i)nvidia-container-cli|libnvidia-ml|no GPUs found|Driver/library version mismatch|driver not loaded"
_XID = r"\bXid \([^)]*\): (?P<number>\d+)"
_NVLINK_XIDS = frozenset({74, 121, 137, *range(144, 151), 155})  # 121 is NVLink-C2C; 144 to 150 Blackwell's links
_RESULT = r"(?i)unhandled ?(?:cuda|hip) ?error"
_SAYS_MORE = (
    "cuda-failure",
    "device-error",
    "gpu-out-of-memory",
    "ipc-failed",
    "nvls-failed",
    "unclassified-warning",
    "shm-extend-failed",
    "process-killed",
    "peer-closed",
    "duplicate-gpu",
    "library-missing",
    "cuda-refused",
    "driver-too-old",
)


def check(facts: JobFacts) -> Outcome:
    """Found where a CUDA failure other than memory was warned about."""
    multicast = failures_of_multicast(facts)
    shared = {(event.origin.file, event.origin.line) for event in warned(facts, "ipc-failed")}
    events = [event for event in facts.of("cuda-failure") if _counts(event) and event not in multicast]
    events += [
        event for event in facts.of("watchdog-exception") if "CUDA error" in event.text or "HIP error" in event.text
    ]
    events += stopped_at(facts, "library-missing", "cuda-refused", "driver-too-old")
    events += [event for event in facts.of("device-error") if not says_memory(event) and not _went_on(event, facts)]
    events = [event for event in events if (event.origin.file, event.origin.line) not in shared]
    if not events:
        return _without_driver(facts) or _by_result(facts)
    events.sort(key=lambda event: (not _is_of_hardware(event), event.origin.sequence))
    reason = (events[0].fields.get("reason") or events[0].fields.get("text", "")).strip()
    api = "CUDA" if facts.library == "NCCL" else "HIP"
    said = "GPU fault" if _is_of_hardware(events[0]) else f"{api} error"
    said = "The container has no GPU" if reason.startswith(_OF_CONTAINER) else said
    return found(
        conclude(
            facts,
            events,
            severity="critical",
            confidence="likely",
            summary=f"{said}: {reason[:140]}",
            explanation=_meaning(reason),
            occurrences=counted(events),
            actions=_advice(events[0], reason),
        )
    )


def _advice(event: Event, reason: str) -> tuple[str, ...]:
    """What to do about a fault of the hardware, and where CUDA was never reached; the program else."""
    if _is_of_hardware(event) or compiled(_OF_HARDWARE).search(reason):
        return ("test-gpu",)
    return ("give-gpu",) if compiled(_OF_SETUP).search(reason) else ("debug-cuda",)


def _is_of_hardware(event: Event) -> bool:
    """Whether the driver reports a GPU's or switch's fault, which errors of CUDA follow from.

    13, 31 and 43 are mostly the program's.
    """
    reason = event.fields.get("reason", "")
    xid = compiled(_XID).search(reason)
    return reason.startswith("SXid") or (xid is not None and int(xid["number"]) not in (13, 31, 43))


def _meaning(reason: str) -> str:
    """What the text of an error stands for."""
    xid = compiled(_XID).search(reason)
    if xid is not None and int(xid["number"]) in _NVLINK_XIDS:
        return (
            "The driver reports a fault of NVLink: look at the link, its switch and the fabric manager. Whoever uses "
            "the link is ended or hangs."
        )
    return next(
        (text for sign, text in _MEANING if sign.lower() in reason.lower()), "The text names what CUDA refused."
    )


def _without_driver(facts: JobFacts) -> Outcome | None:
    """NCCL does not find the driver's library, tries to do without, and no line shows that it works."""
    events = stopped_at(facts, "driver-library-missing")
    if not events or facts.works or facts.steps:
        return None
    return found(
        conclude(
            facts,
            events,
            severity="warning",
            confidence="possible",
            summary="The CUDA driver's library (libcuda.so) is not where the loader looks for it",
            explanation="NCCL does without what it needs the library for, and the log does not show that it works so. "
            "Under WSL it is in /usr/lib/wsl/lib, in containers the runtime of NVIDIA brings it: add its folder to "
            "LD_LIBRARY_PATH, or name it in NCCL_CUDA_PATH.",
            actions=("give-gpu",),
        )
    )


def _by_result(facts: JobFacts) -> Outcome:
    """Only NCCL's result tells of CUDA: a call failed, and no line says which or why."""
    waited = facts.first("watchdog-timeout")  # whose process is then torn down, with the calls of its other threads
    results = [event for event in facts.of("run-error") if compiled(_RESULT).search(event.text)]
    results = [event for event in results if waited is None or event.origin.sequence < waited.origin.sequence]
    if not results or facts.of(*_SAYS_MORE) or any(facts.survived(event) for event in results):
        return CLEAR
    return found(
        conclude(
            facts,
            results,
            severity="critical",
            confidence="possible",
            summary=f"A call of {'CUDA' if facts.library == 'NCCL' else 'HIP'} failed in NCCL, and no line says which",
            explanation="NCCL's result says no more than that. NCCL_DEBUG=WARN on every rank shows the call and CUDA's "
            "reason: mostly memory, an earlier error of the program's kernels, or a driver that is too old.",
            actions=("debug-cuda",),
        )
    )


def _went_on(event: Event, facts: JobFacts) -> bool:
    """Whether the process went on; TensorFlow says so of a GPU that it has not, and works without."""
    return facts.is_worked_behind(event) if "failed call to cuInit" in event.text else facts.survived(event)


def _counts(event: Event) -> bool:
    reason = event.fields["reason"]
    return event.origin.level != "INFO" and "out of memory" not in reason and "driver shutting down" not in reason


RULE = Rule(
    id="cuda-error",
    title="A CUDA or HIP error",
    severity="critical",
    actions=("debug-cuda", "test-gpu", "give-gpu"),
    done_without=("driver-library-missing",),
    check=check,
)
