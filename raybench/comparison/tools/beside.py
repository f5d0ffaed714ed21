"""What a text beside results is: a document of ours, what a program left that failed, or none of them. Pure."""

import json
import re

from raybench.documents.loading import is_document

# What programs and their launchers print as they fail; a word such as "error" alone is in many a healthy log.
_FAILED = re.compile(
    r"\bTest (?:NCCL|RCCL|CUDA|HIP) failure\b|\bTest failure \S{1,99}:\d+"
    r"|\bexited (?:on|with) signal\b|\bexited with (?:non-?zero|(?:exit )?(?:code|status):? *-?[1-9])"
    r"|\bTraceback \(most recent call last\)|\bSegmentation fault\b|\bBus error\b|\bcore dumped\b"
    r"|\bSIG(?:SEGV|KILL|ABRT|TERM|BUS)\b|\b(?:srun|slurmstepd|prterun|mpirun|mpiexec): (?:error|fatal)\b"
    r"|\bDUE TO TIME LIMIT\b|\bCANCELLED AT\b|\bnon-zero (?:status|exit code)\b"
    r"|\berror while loading shared libraries\b|: command not found\b|\b(?:CUDA|HIP|NCCL|RCCL) (?:error|failure)\b"
    r"|\b(?:unhandled|internal) (?:system|cuda|hip) error\b|\bout of memory\b|\bChildFailedError\b"
    r"|^(?:Killed|Terminated|Aborted|Hangup)\b|\bssh: connect to host\b|\bPermission denied \((?:publickey|password)"
    r"|\bHost key verification failed\b"  # not a lost connection alone, which programs try again
    r"|\bnot enough slots available\b|\bunable to launch\b|\bwatchdog (?:got|caught)\b"
    r"|\bORTE was unable\b|\bPRTE? ERROR\b|\bPMIX ERROR\b"
    r"|^(?:\[[^\]\n]{1,99}\]:? ?)?(?:FATAL|(?:[A-Za-z]+\.)*[A-Z][A-Za-z]*(?:Error|Exception)):",
    re.MULTILINE,
)
_BEGAN = re.compile(
    r"^# (?:nThread \d|Using devices|nccl-tests version|Collective test starting)|^rccl-tests: Version", re.MULTILINE
)
_FIRST = re.compile(r'\s*\{\s*"schema"')  # as our documents are written
_OUR_SCHEMA = re.compile(r'"schema"\s*:\s*"raybench\.')
_OBJECT = re.compile(r'\s*\{\s*(?:"|$)')
_MOST_SHOWN = 120


def is_ours(text: str) -> bool:
    """Whether a text begins as a document of ours, or is one wherever its schema stands, as of sorted keys."""
    if _FIRST.match(text):
        return True
    if text.lstrip()[:1] != "{" or not _OUR_SCHEMA.search(text):
        return False
    try:
        return is_document(json.loads(text))
    except (ValueError, RecursionError):
        return True  # its loader says what is wrong with it


def is_cut(text: str) -> bool:
    """Whether a text is the beginning of a JSON object; lines of whole objects are not."""
    if not _OBJECT.match(text):
        return False
    try:
        json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return True
    return False


def failure_said(text: str) -> str:
    """What the output of a program without a result says of its failure; "" where it says nothing of one."""
    if said := _FAILED.search(text):
        line = text[text.rfind("\n", 0, said.start()) + 1 :].partition("\n")[0].strip()
        return f"says: {line[:_MOST_SHOWN]}"
    return "is of nccl-tests that began and printed no table" if _BEGAN.search(text) else ""
