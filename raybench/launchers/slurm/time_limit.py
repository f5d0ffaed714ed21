"""Time limits as sbatch takes them, and how long before their end a job is told of it. Pure."""

import re

from raybench.errors import UsageError

_FORM = re.compile(r"(?:(?P<days>\d{1,4})-)?(?P<parts>\d{1,6}(?::\d{1,2}){0,2})")
_MOST_SECONDS = 90  # ranks, Ray and reports end within half a minute; Slurm may be a minute early, never late
_LEAST_SECONDS = 10
UNLIMITED = ("UNLIMITED", "INFINITE")


def seconds_of(text: str) -> int | None:
    """Seconds of ``30`` (minutes), ``30:00``, ``2:00:00``, ``1-12``, ``1-12:30``; None for ``UNLIMITED``.

    The forms are those of sbatch(1). Raises UsageError for another text.
    """
    if text.upper() in UNLIMITED:
        return None
    found = _FORM.fullmatch(text)
    if not found:
        raise UsageError(f"--time {text!a} is not a time limit; write minutes, H:MM:SS or D-HH:MM:SS, such as 2:00:00")
    numbers = [int(number) for number in found["parts"].split(":")]
    if found["days"] is not None:  # D-HH, D-HH:MM, D-HH:MM:SS
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
        return int(found["days"]) * 86400 + hours * 3600 + minutes * 60 + seconds
    if len(numbers) == 3:
        return numbers[0] * 3600 + numbers[1] * 60 + numbers[2]
    return numbers[0] * 60 + (numbers[1] if len(numbers) > 1 else 0)


def warning_seconds(limit: int | None) -> int:
    """How long before its time limit a job is told to end: a quarter of a short one, and at most 90 s."""
    return _MOST_SECONDS if limit is None else max(_LEAST_SECONDS, min(_MOST_SECONDS, limit // 4))
