"""What programs repeat of NCCL's last warning: behind "Last error:", or in a line of XLA, nccl-tests or their own."""

from typing import NamedTuple

from diagnostics.parsers import FOREIGN_PATTERNS, PATTERNS, QUOTED_PATTERNS, SIGNS
from diagnostics.parsers.base import compiled, read_message
from diagnostics.scanning.wrapped import MAX_PATTERN_CHARACTERS

LAST_ERROR = "Last error:"  # PyTorch's, with NCCL's warning on the next line, or behind it
_WITHIN = (  # XLA's, nccl-tests' (2.13 and newer), and of programs that ask ncclGetLastError
    r"(?:log entry \(may be unrelated\) '(?P<of_xla>.+)'\.?|"
    r"Test NCCL failure \S{1,200}:\d{1,6} '.{1,200}? / (?P<of_tests>.+)'|"
    r"\b(?:last error|ncclGetLastError(?:\(\w{0,40}\))?) ?[:=] ?(?P<of_call>.+))\s*$"
)
_OF_A_TRACE = (  # what other ranks print between PyTorch's "Last error:" and what follows it
    r"\s|(?:\[[\w:]{1,20}\]:? ?)?"
    r"(?:Traceback|File \"|frame #|Exception |During |return |raise |[\w.]+(?:Error|Exception|Warning)\b|\^|~)"
)


class Quoted(NamedTuple):
    """What is quoted, and whether anything that stands there is a warning of NCCL's."""

    text: str
    surely: bool


def quoted_in(text: str) -> Quoted | None:
    """What a line quotes of NCCL's last warning; an empty text where it stands on the next line."""
    _, quotes, error = text.partition(LAST_ERROR)
    if quotes:
        return Quoted(error.strip()[:MAX_PATTERN_CHARACTERS], surely=True)
    if "ast error" not in text and "may be unrelated" not in text and " / " not in text and "LastError" not in text:
        return None
    within = compiled(_WITHIN).search(text[:MAX_PATTERN_CHARACTERS])
    return None if within is None else Quoted(next(filter(None, within.groups())), surely=False)


def read_quoted(quoted: Quoted) -> list[tuple[str, dict[str, str]]]:
    """Kinds and fields of a warning that is quoted; one that nobody knows counts where it is surely one."""
    if not quoted.surely:
        return read_message(QUOTED_PATTERNS, quoted.text)
    found = read_message(PATTERNS, quoted.text)
    if SIGNS.issuperset(kind for kind, _ in found) and _may_be_warning(quoted.text):
        found.append(("unclassified-warning", {"text": quoted.text}))
    return found


def _may_be_warning(quoted: str) -> bool:
    """Whether what stands where NCCL's last warning is expected is no line of a program, or of another rank's error."""
    return not (compiled(_OF_A_TRACE).match(quoted) or read_message(FOREIGN_PATTERNS, quoted))
