"""What the kept traces of a training's ranks say: how each one's step divides, and what the time goes into."""

from raybench.documents.part import FieldwisePart
from raybench.documents.quantity import Count, Seconds


class RankProfile(FieldwisePart, frozen=True, kw_only=True):
    """One rank, seconds of one step, the mean over the traced ones.

    ``computation`` + ``memory`` (copies and fills) + ``exposed`` (communication that neither hides) + ``idle`` is
    ``seconds``. ``communication``: all of it, waiting for late ranks included. ``device``: GPU or CPU.
    """

    rank: Count
    device: str
    steps: Count
    seconds: Seconds
    computation: Seconds
    communication: Seconds
    exposed: Seconds
    memory: Seconds
    idle: Seconds


class ProfiledOperation(FieldwisePart, frozen=True, kw_only=True):
    """A kernel of a GPU, or of a CPU an operator without those that it calls: calls and seconds of one step.

    Both are means over ranks; ``slowest_rank`` spent ``slowest_seconds`` in it. ``kind``: computation, communication or
    memory.
    """

    name: str
    kind: str
    calls: float
    seconds: Seconds
    slowest_rank: Count
    slowest_seconds: Seconds


class Profile(FieldwisePart, frozen=True, kw_only=True):
    """All ranks of one launch. ``stragglers``: ranks that the others wait for in every traced step.

    ``straggler_reason``: why nobody can be named.
    """

    ranks: tuple[RankProfile, ...]
    operations: tuple[ProfiledOperation, ...]
    stragglers: tuple[Count, ...] = ()
    straggler_reason: str | None = None
