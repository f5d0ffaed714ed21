"""The last lines of a file: whether they hold an error, with nothing behind it that shows that the job goes on.

A rule that knows an error says what it is; one that nobody knows still keeps a log from showing that the job works.
An error is told by its form: the level of a logger, an exit status that is not 0, the name of a signal that ends a
process, a stack, the text of an errno at the end, a status of gRPC; or by words: ``error:``, ``failed`` where it ends
what is said, that something died, was killed, or ended unexpectedly. Of these, a fatal level, an exit status, a
signal and a panic tell that the program ended (``is_fatal``).
"""

import errno
import os
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from diagnostics.parsers import levels
from diagnostics.parsers.base import compiled
from diagnostics.parsers.steps import is_not_finite, is_row, is_step, progress_of
from diagnostics.parsers.trouble import NAMED, NO_TROUBLE, OUTCOMES, OVER, TOLD

MAX_QUOTED = 2
LAST_LINES = 40  # in which an error counts; a fatal line does in all that is looked at
_LINES_KEPT = 1024  # several questions are asked of the same lines, one after another
MIN_STEPS = 2  # behind a fatal line: what is printed into a pipe may stand behind what was printed later

_FATAL = (  # levels behind which a program ends
    r"(?:^|[\[(|] *|[\d\]|,-] +|\) +(?=\w+ \d))(?:FATAL|CRITICAL|PANIC)(?=[\s\])|:]|$)|^F\d{4} \d\d:\d\d:\d\d|"
    r"(?i:\b(?:level|lvl|severity)[\"']?[=:] ?[\"']?(?:fatal|critical|panic|emerg)\b|\[(?:fatal|critical|panic)\])|"
    r"^[\d.:/ -]*: F \S+:\d+\] |(?:^|[\])>:|] )panic: (?!.*\[recovered\])|\bpanicked at\b|"
    r"(?i:\b(?:fail|error|fatal|exception|nan\b|crash|died|lost\b).*\b(?:exiting|aborting|shutting down)[.!]?$)"
)
_LEVELS = (
    r"(?:^|[\[(|] *|[\d\]|,-] +|\) +(?=\w+ \d))(?:ERROR|FATAL|CRITICAL)(?=[\s\])|:]|$)|^[EF]\d{4} \d\d:\d\d:\d\d|"
    r"(?i:\b(?:level|lvl|severity)=\"?(?:error|fatal|critical|panic|emerg)\b|\[(?:error|fatal|critical|panic)\])"
)
_EXITS = (
    r"(?i:(?<!bad-)\bexit(?:ed|s|ing)?\b(?: (?:with|non-?zero|return|code|status|value|error|of|is|was))* ?[:=(]? ?"
    r"-?[1-9]\d{0,2}\b(?![.:%]?\d| ?(?:times|m?s\b))|"
    r"\b(?:rc|retcode|return[ _]?code|exit[ _]?(?:code|status))\b[\"']? ?[:=] ?-?[1-9]\d{0,3}\b)|"
    r"\bstatus=[1-9]\d*/|\bcode=(?:killed|dumped)\b"
)
_SIGNALS = (
    r"\bSIG(?:ABRT|BUS|FPE|ILL|KILL|SEGV|SYS|TRAP)\b|(?i:\bsignal[ :#]+(?:4|6|7|8|9|11)(?=\s*(?:$|[(,.;:)\]]))|"
    r"\bsegmentation fault\b|\bcore dumped\b|\bbus error\b(?! count)|\bsegfault\b)"
)
_STACKS = (
    r"^#\d+ +(?:0x[0-9a-f]+|\S+\()|\bframe #\d+: |\(\w*\+0x[0-9a-f]+\) ?\[0x|^goroutine \d+ \[|^panic: |"
    r"\bpanicked at\b|^Exception in thread |^at [\w.$]+\(\w+\.(?:java|scala|kt):\d+\)|^Stacktrace:|"
    r"^File \"[^\"]+\", line \d+, in |most recent call (?:first|last)|^@ +0x[0-9a-f]+ "
)
_ERRNOS = "|".join(sorted({os.strerror(number).replace("(", r"\(").replace(")", r"\)") for number in errno.errorcode}))
_ERRNO = rf"[:,] ?(?:{_ERRNOS})(?: ?\(\d{{1,3}}\)|: ?['\"].*)?[.\s]*$|\[Errno \d+\]|\(errno:? ?\d+"
_SAID = (
    r"(?i:(?:^|[\s\])])(?:fatal |internal )?error(?: from server \(\w+\))?: )(?![+-]?\d)|"
    r"\b[Ff]ailed[.:!]?$|\bFailed[A-Z]\w+|"
    r"(?:^|: |\] |\d )(?:[A-Z]\w+ )?[Ff]ailed to |failed with (?:error|exit|code|status)|\(exit [1-9]\d*\)|"
    r"[Ss]tatus: Failed\b|\d/\d +NodeAffinity\b"
)
_ENDED = (
    r"(?:terminated|exited) unexpectedly|\bdied$|\b[Kk]illed$|\bjob killed\b|[Aa]borting$|\bAbort\(\d+\)|Oops: |"
    r"without enough slots|process(?:es)? returned$|^\s*what\(\): |"
    r": ssh: connect to host |^version `\S+' not found"
)
_STATUSES = (
    r"^(?:\S+: )?(?:CANCELLED|DEADLINE_EXCEEDED|UNAVAILABLE|ABORTED|RESOURCE_EXHAUSTED|FAILED_PRECONDITION|INTERNAL|"
    r"DATA_LOSS|UNIMPLEMENTED): "
)
_NO_END = r"^\s*\++ |(?i:\bwarn(?:ing)?\b)"  # a command that a shell shows, which may be all that failed
_OF_NCCL = r"[NR]CCL (?:INFO|WARN|ATTN|TRACE|CALL|DIAG|ABORT)\b"  # of which the rules know more
# DeepSpeed's and PyTorch's launcher, at level INFO: one of them has failed
_BARE_KILL = r"^(?:\[?\w+\d+\]?: ?)?Killing subprocess \d+$"  # anybody's, such as of a helper
_KILLS = rf"\bsigkill_handler\] Killing subprocess \d+$|{_BARE_KILL}"
_GAVE_UP = r"(?i:\b(?:giving|gave) up after \d+ (?:re)?tr(?:y|ies)\b|\bmax(?:imum)? retries (?:reached|exceeded)\b)"
_GLUED = r"[a-z\d\])>][A-Z][a-z]\w*(?:Error|Exception): \S"  # an exception behind a line of NCCL that has no end
_ENDS = "|".join((_FATAL, _EXITS, _SIGNALS, _KILLS, OUTCOMES))
_ERROR = "|".join(
    (_LEVELS, _FATAL, _KILLS, _EXITS, _SIGNALS, OUTCOMES, _GAVE_UP, _STACKS, _ERRNO, _SAID, _ENDED, _STATUSES)
)
_MILD = (  # a lower level, none, or what is done about it
    r"\b(?:DEBUG|INFO|NOTICE)\b|\b\w+Warning: |(?i:(?<!wandb: )\bwarn(?:ing)?\b)(?! +Failed[A-Z])|"
    r"^\[?[WI]\d{3,4} |\[[WI](?:\d{3,4})?[ \]]|"
    r"(?i:\b(?:0|no|zero|without|any)(?: \w+)? (?:errors?|failures?|failed)\b|(?:errors?|fail\w*)['\"]?\s*[=:]\s*['\"]?"
    r"(?:0\b|none\b|null\b|false\b|\[\]|\{\})|\bretry|\bretries|\bretried|tr(?:y|ied) again|(?<!fork: )\bretrying|"
    r"ignor|^ssh: connect to host|fall(?:s|ing)? ?back|skipp|continu|proceed|recovered|reconnect|instead\b|optional|"
    r"failed over|\bnot failed\b)"
)
_FORK = r"fork: retry: Resource"  # of a shell: no process can be made, and none is later
_BENIGN = (  # of libraries that do without, as the rules know
    r"UCX +ERROR +(?:ibv_(?:open|query)_device|uct_md_open|iface=\S+ failed to create UD QP)|PMIX ERROR: |"
    r"cannot be used\.?$|modify UD QP to INIT|(?:cuda_\w+|computation_placer|cuda_executor)\.cc:\d+\]|"
    r"Unable to register \w+ factory|^\[\S+:\d+:\d+ - \w+\.c:\d+\] ERROR "  # the last: SHARP's library
)
_RESULTS = r"Out of bounds values *: *0 OK|Avg bus bandwidth *: *\d"
_DONE = (  # what a program says of its own work; "all done", "job finished" are a script's, whatever came before
    r"(?i:\b(?:train(?:ing)?|test\w*|benchmark|epoch|evaluation|model|checkpoint)\b[\w ]{0,30}?"
    r"\b(?:complete[ds]?|finished|done|succeeded|saved|passed)\b|process (?:exited|ended) with (?:code|status) 0\b)"
)
_WORKS = rf"CCL INFO (?:.*Init COMPLETE|Connected |.*opCount)|{_RESULTS}"  # of all ranks, or of the one they wait for

_FRAME = r"^(?P<before>\S.{0,200}?)?\s+File \"[^\"]{1,400}\", line \d+(?:, in |\b)"
_BEGIN_OF_TRACEBACK = "Traceback (most recent call last)"


class LastError(NamedTuple):
    """An error at the end of a file, and how many lines of the file stand behind it."""

    text: str
    behind: int = 0


def last_errors(lines: Sequence[tuple[int, str]]) -> tuple[LastError, ...]:
    """The errors behind the last proven work of a file, in their order; empty where there are none.

    ``lines`` are the last ones that are not empty, each with how many stand behind it. Work is proven by a step, a row
    of measurements, a result, a communicator that came to be. Fatal lines take two steps, or more than words of an end.
    """
    found: list[LastError] = []
    steps: set[str] = set()
    done = False
    for number, (behind, line) in enumerate(reversed(lines)):
        if is_error(line):
            if is_fatal(line) or (number < LAST_LINES and not (steps or done)):
                found.append(LastError(line.strip(), behind))
        elif _proves_work(line):
            break
        elif is_step(line) and not is_not_finite(line):
            steps.add(progress_of(line.strip()))
            if len(steps) >= MIN_STEPS or found:
                break
        else:
            done = done or compiled(_DONE).search(line) is not None
    if done and all(compiled(_BARE_KILL).search(one.text) for one in found):
        return ()  # a helper of a job that has ended well
    found.sort(key=lambda one: (not is_fatal(one.text), -one.behind))
    return tuple(sorted(found[:MAX_QUOTED], key=lambda one: -one.behind))


def last_hints(lines: Sequence[tuple[int, str]]) -> tuple[LastError, ...]:
    """What tells of a failure in any words behind the last proven work of a file, in its order."""
    found: list[LastError] = []
    for behind, line in reversed(lines[-LAST_LINES:]):
        if tells_of_trouble(line):
            found.append(LastError(line.strip(), behind))
        elif _proves_work(line) or is_step(line) or any(compiled(one).search(line) for one in (_DONE, OVER)):
            break
    return tuple(reversed(found))[:MAX_QUOTED]


def _proves_work(line: str) -> bool:
    return is_row(line) or compiled(_WORKS).search(line) is not None


def names_trouble(line: str) -> bool:
    """Whether a line names an error or trouble of any kind, be it over: what stands before it may not go on."""
    return compiled(NAMED).search(line) is not None or tells_of_trouble(line)


@lru_cache(maxsize=_LINES_KEPT)
def tells_of_trouble(line: str) -> bool:
    """Whether a line tells of an error or of trouble in any words, and not that it is over, or none."""
    if compiled(_BARE_KILL).search(line.strip()):
        return False
    if is_error(line) or is_not_finite(line):
        return True
    if "CCL " in line and compiled(_OF_NCCL).search(line):
        return False
    told = compiled(TOLD).search(line) is not None
    return told and not any(compiled(one).search(line) for one in (_MILD, _BENIGN, NO_TROUBLE))


def ends_in_traceback(text: str) -> bool:
    """Whether a text ends with the frames of a traceback: its last line is one, or the line of code below one."""
    last = [line for line in text.splitlines() if line.strip()][-2:]
    if any(_BEGIN_OF_TRACEBACK in line for line in last[-1:]):
        return True
    found = [compiled(_FRAME).match(line) for line in last]
    if not any(found):
        return False
    if found[-1]:
        return True
    before = (found[0]["before"] or "") if found[0] else ""  # what a launcher or PyTorch puts before each line
    return bool(last[-1].startswith(f"{before}  ") and last[-1].removeprefix(before).startswith("    "))


@lru_cache(maxsize=_LINES_KEPT)
def is_error(line: str) -> bool:
    """Whether a line tells of an error, and not that it is passed over, tried again, or none."""
    if "CCL " in line and compiled(_OF_NCCL).search(line):
        return bool(compiled(_GLUED).search(line))
    if not (compiled(_ERROR).search(line.strip()) or levels.is_error_level(line)):
        return False
    if compiled(f"{_FORK}|{_KILLS}|{_GAVE_UP}").search(line.rstrip()):
        return True
    return not (compiled(_MILD).search(line) or compiled(_BENIGN).search(line))


def is_fatal(line: str) -> bool:
    """Whether a line that tells of an error says that its program ended by it."""
    ended = compiled(_ENDS).search(line.strip()) is not None or levels.is_fatal_level(line)
    return ended and not compiled(_NO_END).search(line)
