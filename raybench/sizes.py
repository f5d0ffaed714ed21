"""Message sizes of a sweep: ``8:256M:2`` or ``1K,64K,1M`` to bytes, and bytes to elements."""

import re

from raybench.errors import UsageError
from raybench.units import parse_bytes

MAX_SIZES = 1000


def parse_sizes(text: str) -> tuple[int, ...]:
    """Sizes in bytes, ascending, from ``BEGIN:END:FACTOR``, ``BEGIN:END:+STEP``, ``BEGIN:END`` or a comma list.

    ``8:1M:2`` doubles from 8 B to 1 MiB, as ``nccl-tests -b 8 -e 1M -f 2``; ``1M:8M:+1M`` adds 1 MiB each time; the
    factor is 2 where none is given. Raises UsageError for text that is not a sweep, an end below the beginning, a
    factor that does not grow, or more than 1000 sizes.
    """
    if ":" not in text:
        return tuple(sorted({parse_bytes(part) for part in text.split(",")}))
    parts = text.split(":")
    if len(parts) not in (2, 3):
        raise UsageError(f"'{text}' is not a range of sizes; write BEGIN:END:FACTOR, such as 8:256M:2")
    begin, end = parse_bytes(parts[0]), parse_bytes(parts[1])
    if end < begin:
        raise UsageError(f"the sizes '{text}' end ({end} B) below their beginning ({begin} B); swap the two")
    sizes = [begin]
    grow = _step(parts[2].strip() if len(parts) == 3 else "2", text)
    while (following := grow(sizes[-1])) <= end:
        sizes.append(following)
        if len(sizes) > MAX_SIZES:
            raise UsageError(f"the sizes '{text}' are more than {MAX_SIZES}; take a larger factor or step")
    return tuple(sizes)


class _Factor:
    def __init__(self, factor: int) -> None:
        self._factor = factor

    def __call__(self, size: int) -> int:
        return size * self._factor


class _Increment:
    def __init__(self, increment: int) -> None:
        self._increment = increment

    def __call__(self, size: int) -> int:
        return size + self._increment


def _step(text: str, sizes: str) -> "_Factor | _Increment":
    if text.startswith("+"):
        return _Increment(parse_bytes(text[1:]))
    if not re.fullmatch("[0-9]{1,18}", text) or int(text) < 2:
        raise UsageError(
            f"the factor '{text}' of the sizes '{sizes}' does not grow; write a whole number of at least 2, or +STEP"
        )
    return _Factor(int(text))


def elements_of(message_bytes: int, element_bytes: int, multiple: int) -> int:
    """Elements of a message: as many as fit in ``message_bytes``, a multiple of ``multiple``, at least that multiple.

    Operations that cut the message into one part a rank need a multiple of world_size; nccl-tests rounds down likewise
    (and times an empty operation where nothing is left; we time the smallest real one instead).
    """
    return max(message_bytes // (element_bytes * multiple), 1) * multiple
