"""The run failed, and no line shows why.

Symptom: NCCL's failure stack (``init.cc:1089 -> 6``), a result such as ``unhandled system error`` or
``internal error``, ``Test NCCL failure``, a warning that says what failed and is the last that its process does, a
launcher that reports an exit code, a process that was killed; the last line of a program that no rule knows, where it
names a fatal level, an exit status, a signal or a panic.

Why: these lines say that something failed, not what. The cause stands before them, often in the output of another rank,
or needs a higher NCCL_DEBUG.

Not when: another finding explains the failure (the lines are then listed under it); the lines follow from the job's end
by its scheduler or user; the process goes on to work after them: NCCL also tries what it can do without, such as SHARP.

Severity: critical; warning where a launcher or program was sent a signal, and nothing says why; info where the log ends
with an error, or in a traceback, that no rule knows.

Source: NCCL's checks.h and debug.cc; nccl-tests' common.h.
"""

from diagnostics.events import Event, Origin
from diagnostics.facts import JobFacts
from diagnostics.judging.restarts import led_on
from diagnostics.judging.survival import went_on_behind
from diagnostics.parsers import warnings
from diagnostics.parsers.base import compiled
from diagnostics.parsers.last_errors import is_fatal
from diagnostics.parsers.programs.restarts import RESTART
from diagnostics.rules.base import CLEAR, Outcome, Rule, conclude, counted, found
from diagnostics.rules.program.ended_stack import ended_stack
from diagnostics.rules.program.job_cancelled import before_any_cut, cuts
from diagnostics.rules.program.tracebacks import torn_off_traceback
from diagnostics.rules.rdma.verbs import is_probe

_RESULTS = {
    "1": "a CUDA call failed",
    "2": "a system call failed",
    "3": "an internal error",
    "4": "an invalid argument",
    "5": "an invalid usage",
    "6": "a peer ended, or the network failed",
    "8": "time ran out",
}
# What NCCL warns about and goes on. Read in its sources of 2.10 to 2.30: behind 643 of 791 warnings the call returns;
# of the others, those that no rule knows hold one of these words.
_OF_ABSENT_VERBS = r"lib wrapper not initialized|transport/net_ib[/.]\S+ .{0,80}-> \d"
_GOES_ON = (
    r"(?i)\bignor|(?:^|, )setting\b|, set (?:it|both)|cap it|limiting|disabling|(?<!after )fall(?:ing|s)? ?back|"
    r"skipp|(?<!annot )(?<!able to )continue|proceeding|using .* instead|defaulting|unsetting|deregister|^warning|"
    r"CollNet currently|repress|recommend|you may|, not dumping|Cannot enable MSCCL|"
    r"can lead to|unlink shared|proxyDestroy|shm close|close failed|close socket|commReclaim|commDestroySync|proxyStop|"
    r"real path of \S+ \(|\[Service thread\] Unknown|dequeue nonexistent|driver version found|"
    r"(?:maximum|minimum|multiple of) -?\d|retrying|marked as failed|resiliency is enabled|unrecognized request\.|"
    r"local mergedDev|duplicate option|cleanup callback|timeout cnt \d|"
    r"next set|list loop|been lost|not (?:checkpoint|an error)|"
    r"some PFN functions not found|Failed to (?:find CUDA library|load CUDA missing symbol|open libgdrapi)|"
    r"cuDriverGetVersion failed|Retrieve \w+ (?:version \d+ )?failed with|"
    r"\bpfn_hsa_\w+ failed with|ROCr missing symbol|ROCm runtime library|"  # RCCL asks it whether DMA-BUF is there
    r"may affect performance|"
    r"incoming CPU|Maximum retry reached for (?:accept|connect)"  # FastSocket tunes its sockets, and waits on
)
_WAY_OUT = r"(?i)\b(?:set|use) (?:NCCL|RCCL)_\w+=\S+ (?:in order )?to .*"  # what to do about it, and not what it does
_FAILS = (
    r"(?i)fail|error|invalid|unable|cannot|can't|could not|mismatch|not supported|unsupported|timed? ?out|refused|"
    r"denied|abort|corrupt|exceed|too (?:large|many|small|big)|not (?:found|ready|enough|set)|no (?:\w+ found|valid)|"
    r"missing|unexpected|wrong|lost|incompatible|incorrect|unknown|non-exist|pass NULL|is null|but (?:only|max)\b"
)
_OF_NCCL = (
    r"(?:^|[\s/])[\w/.\-]+\.(?:cc|h|cu):\d+ (?:\(\w+\) )?(?:NCCL )?WARN"  # a plugin's file is another's, mostly .c
)
_OF_FRAMEWORKS = frozenset(
    {
        "DistBackendError",
        "DistNetworkError",
        "DistStoreError",
        "DistError",
        "ProcessExitedException",
        "ProcessRaisedException",
        "RayActorError",
        "ActorDiedError",
        "ActorUnavailableError",
        "RpcError",
        "WorkerCrashedError",
        "HorovodInternalError",
        "NcclError",
        "XlaRuntimeError",
        "JaxRuntimeError",
        "RendezvousConnectionError",
        "RendezvousClosedError",
        "CalledProcessError",
        "BrokenPipeError",
        "ConnectionResetError",
    }
)
_OF_PROGRAMS = frozenset({"OutOfMemoryError", "ChildFailedError"})  # told of elsewhere, or of what was told before
_MODULES = (
    r"^(?:torch\.distributed|deepspeed|vllm|sglang|horovod|ray|jax|jaxlib|megatron|accelerate|lightning|pytorch_lightning|"
    r"paddle|tensorflow|cupy|mxnet|oneflow|colossalai|nemo)\b"
)
_OF_GROUPS = (
    r"(?i)\b(?:nccl|rccl|gloo|c10d|process ?group\w*|tcpstore|rendezvous|communicator)\b|socket (?:has )?time|"
    r"connection (?:was )?(?:reset|closed|refused|timed out)|broken pipe|\brank \d+ .*(?:timed? ?out|died|failed)|"
    r"pair closure|remote peer|(?:got|sent) 0 bytes|shutdown, see above|\brpc_code\b|^RPC error"
)
_OF_LIBRARIES = r"UCX +(?:ERROR|FATAL) |: (?:non-zero|error) status: \d|: NULL value |(?i:nvshmem)"
AT_THE_END = 2**62  # the place of what is read last, behind all that was read on the way
_WARNED = warnings.KINDS | {"unclassified-warning"}
_OPEN = frozenset({"stack-line"})  # of what NCCL may do without
_UNKNOWN = (
    "The log does not show why. The first of these lines is the nearest to the cause; look for what the rank that "
    "failed first printed before it, and give the whole output of every rank."
)
_OF_SIGNALS = (  # which may come from anybody, for any reason
    r"\bdeath signal\b|\bgot signal: \d|\bSIG(?:TERM|INT|HUP)\b|KeyboardInterrupt|^Terminated\s*$|^Hangup\s*$|"
    r": Terminated\s*$|from signal 15\b"
)
_REFUSED = (
    "NCCL refused a call of the program or its framework, and the log does not show why it was made so: the first of "
    "these lines says what NCCL does not take. Compare the arguments, buffers and versions of all ranks; by this line "
    "neither network nor hardware is at fault."
)
_OF_REFUSALS = r"\bnccl(?:Invalid(?:Argument|Usage))\b|\binvalid (?:argument|usage) \(run with"
_OWN_SIDE = warnings.KINDS | {"no-transport", "communicator-fatal"}
_LOST = ("peer-closed", "completion-error", "connect-failed", "proxy-victim", "watchdog-timeout")
_KILLED = ("process-killed", "launcher-failure")  # of any rank
_BEHIND_AN_END = r"was revoked|already been destroyed|before the previous operation"
_TOLD = (
    "run-error",
    "failure-frame",
    "async-error",
    "communicator-fatal",
    "plugin-none",
    "no-transport",
    "completion-error",
)


def check(facts: JobFacts) -> Outcome:
    """Found where a line says that the run failed, and the process does not go on."""
    events = failure_lines(facts) or before_any_cut(facts, _last_words(facts) or ended_stack(facts))
    if not events:
        return _ended_by_signal(facts)
    return found(
        conclude(
            facts,
            events[:4],
            severity="critical",
            confidence="certain" if any(event.kind not in _WARNED | _OPEN for event in events) else "likely",
            summary=f"The run failed: {_said(events)}",
            explanation=_REFUSED if _is_refused(events, facts) else _UNKNOWN,
            occurrences=counted(events),
            own=_is_of_own_side(events[0], facts),
        )
    )


def _ended_by_signal(facts: JobFacts) -> Outcome:
    """A launcher was sent a signal, no line tells by whom or why, and none shows that its ranks worked until then."""
    ended = cuts(facts)
    if not ended or facts.works or not all(compiled(_OF_SIGNALS).search(event.text) for event in ended):
        return CLEAR
    return found(
        conclude(
            facts,
            ended[:4],
            severity="warning",
            confidence="likely",
            summary=f"The run was ended by a signal, and the log does not show why: {ended[0].fields['text'][:120]}",
            explanation="Who sent it knows more: a scheduler, a user who saw it stand still, or what started the "
            "launcher, once a process elsewhere had failed. Look there, and at what the ranks printed last.",
            sequence=ended[0].origin.sequence - 1,  # above the remark that it was cut, which rests on the same line
        )
    )


def _is_of_own_side(event: Event, facts: JobFacts) -> bool:
    """Whether it is a warning in words that are known, before which its process had lost no other one."""
    if event.kind not in _OWN_SIDE or event.origin.level == "INFO" or compiled(_BEHIND_AN_END).search(event.text):
        return False
    before = [one for one in facts.of(*_LOST, *_KILLED) if one.origin.sequence < event.origin.sequence]
    return not any(one.kind in _KILLED or _speaker(one) == _speaker(event) for one in before)


def _speaker(event: Event) -> object:
    return event.origin.process or event.origin.rank


def failure_lines(facts: JobFacts) -> list[Event]:
    """What says that the run failed, the most telling first: warnings no rule knows, results, stacks, exit codes."""
    warned = facts.of("unclassified-warning") + [event for event in facts.of(*warnings.KINDS) if "text" in event.fields]
    warned = [event for event in warned if says_failure(event) and not _is_cut_copy(event, facts)]
    raised = [event for event in facts.of("python-error") if is_of_framework(event)]
    told = [*warned, *facts.of(*_TOLD), *raised]
    told = [event for event in told if _is_last_word(event) or not facts.survived(event)]
    told = [event for event in told if not (facts.is_from_unknown_client(event) or went_on_behind(event, facts))]
    told = [event for event in told if not _is_of_collnet(event, facts)]
    told = [event for event in told if not (event.origin.file in facts.steps and _is_of_library(event))]
    told = [event for event in told if not (_is_of_library(event) and is_probe(event, facts))]
    told += facts.of("watchdog-stuck")  # PyTorch ends a process of which it says so
    told = [event for event in told if event.kind != "no-transport" or event.origin.level != "INFO"]
    if facts.of("libibverbs-missing"):  # NCCL 2.30 asks the NICs that it has not all the same, and goes on
        told = [event for event in told if not compiled(_OF_ABSENT_VERBS).search(event.text)]
    if told and not any(event.kind in _WARNED for event in told):
        told += [event for event in facts.of("proxy-victim") if event.origin.level != "INFO"][:1]
    told.sort(key=lambda event: (event.kind not in _WARNED | _OWN_SIDE, event.origin.sequence))
    told += [event for event in facts.of(RESTART) if not (led_on(event, facts) or event.origin.file in facts.steps)]
    told += facts.of("watchdog-exception", "launcher-failure", "process-killed", "communicator-aborted")
    if (traceback := torn_off_traceback(facts)) is not None:
        told.append(traceback)
    return before_any_cut(facts, told)


def _last_words(facts: JobFacts) -> list[Event]:
    """What programs nobody knows say as the last of their files: that they end by an error."""
    ends = [
        Event("last-error", Origin(file, facts.last_lines.get(file, 0) - line.behind, AT_THE_END), line.text, {})
        for file, lines in facts.last_errors.items()
        if file not in facts.steps
        for line in lines
        if is_fatal(line.text)
    ]
    return [event for event in ends if not facts.is_worked_behind(event)]


def _is_refused(events: list[Event], facts: JobFacts) -> bool:
    """Whether it is a call that NCCL does not take, by the warning or by the results of it and of the stack."""
    if any(event.kind == "call-refused" for event in events):
        return True
    results = [event for event in events if compiled(_OF_REFUSALS).search(event.text)]
    codes = {event.fields.get("code") for event in facts.of("trace")}
    return bool(results or codes) and codes <= {"4", "5"}


def _is_cut_copy(event: Event, facts: JobFacts) -> bool:
    """Whether the last line of a file is a warning that is cut, and begins as one that was read before does."""
    said = compiled(r"\S+:\d+ (?:\(\w+\) )?NCCL WARN .*$").search(event.text)
    if said is None or event.origin.line < facts.last_lines.get(event.origin.file, 0):
        return False
    known = (other for kind, others in facts.events.items() if kind != event.kind for other in others)
    return any(said[0] in other.text for other in known if other.origin.sequence < event.origin.sequence)


def is_of_framework(event: Event) -> bool:
    """Whether an exception is one of a framework that runs ranks, or tells of their group or their connections."""
    module, _, name = event.fields["name"].rpartition(".")
    if name in _OF_PROGRAMS and not module.startswith("ray"):
        return False
    named = name in _OF_FRAMEWORKS or compiled(_MODULES).match(module)
    return bool(named or compiled(_OF_GROUPS).search(event.fields["reason"]))


def _is_of_library(event: Event) -> bool:
    """Whether UCX or another library tells of an error, which tries what it can do without as NCCL does."""
    if "library" in event.fields:
        return True
    return event.kind == "run-error" and compiled(_OF_LIBRARIES).search(event.text) is not None


def _is_of_collnet(event: Event, facts: JobFacts) -> bool:
    """Whether a process tells that CollNet did not start, and nothing more: the other ranks of a host say so besides.

    collNetTrySetup returns to an initialisation that goes on; a failed one has several frames of init.cc. Where more
    were printed than are kept, a process may have had another.
    """
    if event.kind != "failure-frame" or event.fields.get("unit") != "init" or event.fields.get("code") != "2":
        return False
    process = event.origin.process
    given_up = (one for one in facts.of("sharp-unavailable") if "Cannot initialize CollNet, using" in one.text)
    if process is None or all(one.origin.host != event.origin.host for one in given_up):
        return False
    frames = facts.of("failure-frame")
    return facts.count("failure-frame") <= len(frames) and sum(one.origin.process == process for one in frames) == 1


def _is_last_word(event: Event) -> bool:
    """Whether a line is one of nccl-tests' that no test goes on after; files that were joined put others behind it."""
    return event.kind == "run-error" and event.fields["text"].startswith(("Out of bounds", "Test "))


def says_failure(event: Event) -> bool:
    """Whether a warning that no rule knows is NCCL's own or says that something failed, and not that it goes on."""
    own = event.kind == "call-refused" or compiled(_OF_NCCL).search(event.text)
    return bool(own or compiled(_FAILS).search(event.fields["text"])) and not says_to_go_on(event)


def says_to_go_on(event: Event) -> bool:
    """Whether a warning says that NCCL does without what it warns of."""
    text = event.fields.get("text", event.text)
    return compiled(_GOES_ON).search(compiled(_WAY_OUT).sub("", text)) is not None


def _said(events: list[Event]) -> str:
    """What the decisive line says: a warning before a result, a result before a stack."""
    for event in events:
        if event.kind == "no-transport":
            return "no way leads from one rank to another: neither P2P, nor shared memory, nor a network"
        if event.kind == "traceback":
            return "the log ends in a traceback, and does not show which exception it is of"
        if said := _measured(event):
            return said
        if said := _exception(event) or event.fields.get("text") or _RESULTS.get(event.fields.get("code", ""), ""):
            return said[:160]
        if signal := event.fields.get("signal"):
            return f"a process was ended by {signal}"
    return events[0].text[:160]


def _measured(event: Event) -> str:
    """What a transfer or its check came to; empty where the line tells of neither."""
    if event.kind == "completion-error":
        status = event.fields.get("status") or event.fields.get("error") or event.fields.get("words", "?")
        return f"a transfer of the NIC ended with status {status}"
    size = event.fields.get("wrong_at")
    return f"results are wrong: nccl-tests counts wrong elements (#wrong) from {size} bytes on" if size else ""


def _exception(event: Event) -> str:
    """What was raised; empty where the line tells of no exception."""
    if event.kind == "watchdog-exception":
        return f"PyTorch's watchdog ended with {event.fields['reason']}"
    return f"{event.fields['name']}: {event.fields['reason']}" if event.kind == "python-error" else ""


RULE = Rule(
    id="run-failed",
    title="The run failed, and the log does not show why",
    severity="critical; warning where a signal of unknown origin ended the run; info where no rule knows the error",
    actions=("look-at-rank", "whole-log", "show-network"),
    check=check,
    consequence="last",
)
