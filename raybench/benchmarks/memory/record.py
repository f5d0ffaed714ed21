"""What one rank found out about its memory. Travels as MessagePack; no torch here."""

import msgspec


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """Training steps at one batch size, in bytes. Where they do not fit, ``fits`` is False and the rest may be 0.

    ``peak`` is what PyTorch's allocator handed out at most; ``reserved`` what it took from a GPU, on a CPU the same.
    ``activations``: what autograd saved where it could be counted (a whole model on a CPU), else the peak less what
    stays between steps.
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

    ``emulated``: there is no device with memory of its own; ``limit_bytes`` is then a limit on what a process takes.
    ``interim``: the trials so far, told after each; it counts where the whole record never comes.
    """

    label: str
    trials: tuple[Trial, ...]
    largest_batch: int
    reached_most: bool
    limit_bytes: int
    emulated: bool
    estimates: dict[str, dict[str, int]]
    interim: bool = False

    @property
    def text(self) -> str:
        """Where the search is: ``memory small: batch sizes tried: 1, 2, 4; the largest that fits: 4``."""
        tried = ", ".join(str(trial.batch_size) for trial in self.trials)
        return f"{self.label}: batch sizes tried: {tried}; the largest that fits: {self.largest_batch or 'none'}"
