"""Whether data are enough for a step and something to validate with. No torch: the driver looks as well."""

from raybench.benchmarks.training.data.corpus import CORPUS_BYTES, corpus_text
from raybench.benchmarks.training.data.files import read_text
from raybench.benchmarks.training.data.tokens import tokens_of
from raybench.benchmarks.training.models.shapes import shape_of
from raybench.benchmarks.training.options import TrainingOptions
from raybench.errors import UsageError

SPIRAL_POINTS = 3072
_MOST_VALIDATION = 512  # samples: an evaluation takes no longer than some steps do
_MOST_TOKENISED = 2**22  # bytes of text that the driver turns into tokens to count them


def divided(total: int, options: TrainingOptions) -> tuple[int, int]:
    """How many of the samples are to train on, and to validate with."""
    held_out = min(max(round(total * options.validation_share), 1), _MOST_VALIDATION, total)
    return total - held_out, held_out


def check_enough(name: str, total: int, options: TrainingOptions, world_size: int) -> None:
    """Raises UsageError where a step takes more than there is, or nothing is left to validate with."""
    (count, held_out), step = divided(total, options), options.batch_size * options.accumulate * world_size
    if count < step or held_out < 1:
        raise UsageError(
            f"--data {name} has {count} samples to train on and {held_out} to validate with, "
            f"and a step takes {step}; give more data, a smaller --batch-size or a shorter --sequence-length"
        )


def check_samples(options: TrainingOptions, world_size: int) -> None:
    """Raises UsageError for data that ranks could not train on: all of a text is read, as each of them will.

    A long text with a tokenizer is counted by its bytes, of which a token takes one or more: what is then still too
    little is seen by the ranks.
    """
    if options.data == "random":
        return
    if options.data == "spiral":
        check_enough("spiral", SPIRAL_POINTS, options, world_size)
        return
    shape, length = shape_of(options)
    if options.tokenizer is None and options.data == "text":
        check_enough("text", CORPUS_BYTES // length, options, world_size)
        return
    text = corpus_text() if options.data == "text" else read_text(options.data)[0]
    is_counted = options.tokenizer is not None and len(text) <= _MOST_TOKENISED
    total = len(tokens_of(text, options.tokenizer or "", shape.vocabulary)) if is_counted else len(text)
    check_enough(options.data, total // length, options, world_size)
