"""What one rank found out about its memory. Travels as MessagePack; no torch here."""

import msgspec


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """Training steps at one batch size, in bytes. Where they do not fit, ``fits`` is False and the rest is 0.

    On a GPU ``peak`` is what PyTorch's allocator handed out at most and ``reserved`` what it took from the device; on a
    CPU both are the tensors counted, and workspaces of single operations are not in them.
    """

    batch_size: int
    fits: bool
    parameters: int = 0
    gradients: int = 0
    optimizer_state: int = 0
    activations: int = 0
    peak: int = 0
    reserved: int = 0


class MemoryRecord(msgspec.Struct, frozen=True, kw_only=True, tag="memory"):
    """All trials of a rank, and the largest batch that fits every rank; 0 where none does, None where it is not known.

    ``emulated``: there is no device with memory of its own; ``limit_bytes`` is then a limit on counted tensors.
    """

    label: str
    trials: tuple[Trial, ...]
    largest_batch: int
    reached_most: bool
    limit_bytes: int
    emulated: bool
    estimates: dict[str, dict[str, int]]
