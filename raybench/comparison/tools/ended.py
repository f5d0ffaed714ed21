"""How a run of nccl-tests ended, and whether its data was right, in the words of results. Pure."""

import re
from collections.abc import Iterable, Mapping

_FAILURE = re.compile(
    r"\bTest (?:NCCL|RCCL|CUDA|HIP) failure\b|\bTest failure \S{1,99}:\d+"
    r"|Out of bounds values *: *\d+ FAILED|Avg bus bandwidth *: *\S{1,40} FAILED"
)
_END = re.compile(r"Out of bounds values *: *\d+ OK\b")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?", re.IGNORECASE)
_NONE = re.compile(r"[+-]?(?:nan|inf(?:inity)?)(?:\([^)]*\))?", re.IGNORECASE)
_MOST_ERROR = 0.1  # up to 2.11 the column was a relative error, rounding of half precision included


def is_wrong(count: float | str | None) -> bool | None:
    """Whether a count of wrong elements, or a relative error, is one; None where nobody looked (``N/A``).

    A count that is not a number, or infinite, comes of wrong data.
    """
    if isinstance(count, str):
        if _NONE.fullmatch(count.strip()):
            return True
        count = float(count) if _NUMBER.fullmatch(count.strip()) else None
    return None if count is None else not abs(count) <= _MOST_ERROR


def outcomes_of(status: str, rows: Iterable[bool | None]) -> Mapping[str, str]:
    """The ``status``, and the worst of what is known of the data of all rows: wrong, not looked at, or right."""
    found = list(rows)
    return {"status": status, "data": "fail" if True in found else "pass" if found and None not in found else "unknown"}


def status_of_text(text: str, tables: int) -> str:
    """Of what was printed, with so many tables: each program ends with a line, which an excerpt may lack."""
    if _FAILURE.search(text):
        return "failed"
    ends = len(_END.findall(text))
    return "complete" if ends >= tables else "incomplete" if ends else "unknown"
