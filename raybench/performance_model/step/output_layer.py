"""What the output layer and its loss take: bytes moved for each logit, and products by kernels for unaligned widths."""

from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.setup.training_setup import TrainingSetup

# Bytes of each logit that kernels read and write, forward and backward, products left out, with logits in 16 bits.
# plain: PyTorch's cross entropy under autocast, a cast to fp32 (6), log_softmax (8), its gradient (12) and that of the
# loss (4), the cast back (6). transformers: the same on a copy in fp32 that is shifted (8) with its gradient (12).
# autocast: log_softmax (4) and a cast of that (6), the loss's gradient (4), its cast (6) and log_softmax's (6).
# narrow: shifted and in 16 bits throughout. fused-fp32: one kernel between the two casts. fused: one kernel on the
# logits as they are, read twice and written once; chunked: the same on a part at a time, which is scaled once more.
# chunked-fp32: TRL's, with the most likely word and the entropy of each token beside the loss, a cast to fp32 (6),
# log_softmax (8), its largest (2), exponentials (8), their product (12) and its sum (4), all that twice; the gradient
# of the loss (4), that of log_softmax (12) and its cast (6).
# Compiled, the casts are in the kernels that read.
_COMPILED_BYTES = 16.0
_BYTES_PER_LOGIT = {
    "compiled": _COMPILED_BYTES,
    "plain": 36.0,
    "autocast": 26.0,
    "transformers": 56.0,
    "transformers-whole": 36.0,
    "transformers-kept": 56.0,
    "narrow": 28.0,
    "fused-fp32": 24.0,
    "fused": 6.0,
    "chunked": 10.0,
    "chunked-fp32": 102.0,
}
_ALIGNED = 8  # elements of 16 bits: the 16 bytes that a thread loads at once
_PADDED = 128  # as Megatron-LM pads it by default
# How much longer products with an odd width take: cuBLAS has kernels of Turing's for them, which load elements one by
# one (..._s1688gemm_..._align1, github.com/pegainfer-project/pegainfer pull request 1046). GPT-2 (124M) became about a
# quarter faster on A100 with 50,304 words for 50,257, whose layer had about 40 % of the time (github.com/karpathy/
# nanoGPT commit 77e7e04c): 2.0 to 2.7 times. On an H200 157 ms a step of 32 x 1024 tokens (tests/gpu/trainings/
# h200.jsonl) are 4.6 times, which Ampere's instructions there explain. Even widths load two or four elements at a time:
# somewhere between.
_UNALIGNED_TIMES = 2.4


def logit_bytes(setup: TrainingSetup) -> tuple[float, float]:
    """Read and written for each logit; and how much of it is there or not, where nobody says which loss it is."""
    given = _BYTES_PER_LOGIT[setup.loss]
    if setup.compiled and setup.loss == "plain":
        given = _COMPILED_BYTES
    least = _BYTES_PER_LOGIT["fused"]
    return ((given + least) / 2, (given - least) / 2) if setup.loss_open else (given, 0.0)


def padded_vocabulary(model: Transformer) -> int | None:
    """The next one that all kernels take; None where the model's is."""
    return None if model.vocabulary % _ALIGNED == 0 else -(-model.vocabulary // _PADDED) * _PADDED


def head_times(model: Transformer, setup: TrainingSetup) -> tuple[float, float]:
    """How often the time of an aligned output layer its products take, and how much more or less it may be.

    Of Ampere's instructions; in 16 bits. Of a model that is cut, ``model`` is the part: what pads its vocabulary as
    Megatron-LM does is asked for with the padded one.
    """
    if setup.compute_bytes > 2 or model.vocabulary % _ALIGNED == 0:
        return 1.0, 0.0
    if model.vocabulary % 2:
        return _UNALIGNED_TIMES, 0.0
    return (1 + _UNALIGNED_TIMES) / 2, (_UNALIGNED_TIMES - 1) / 2
