"""How Megatron-LM and NeMo train a model, as far as the memory of a rank depends on it."""

from dataclasses import replace
from typing import Any

from raybench.performance_model.layout import Layout
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.programs.of_megatron import FUSED_ADAM, JOINED_PROJECTIONS, LEAN_KERNELS, LOSS_IN_PLACE
from raybench.performance_model.setup.element_types import FP32_BYTES
from raybench.performance_model.setup.training_setup import TrainingSetup

# NCCL's buffers, of a communicator for each way that the model is cut and one for all of them; and, of what comes and
# goes every step, what the allocator holds beside it. NeMo on 8 B200 (vuiseng9): 125,170 MiB by nvidia-smi, of which
# PyTorch had reserved 121,866 and handed out 110,429.
MEGATRON_NCCL_BYTES = int(2.6 * 2**30)
MEGATRON_FRAGMENTATION_SHARE = 0.17


def is_megatrons(model: Transformer, setup: TrainingSetup, layout: Layout) -> bool:
    """Whether it is trained as by Megatron-LM or NeMo: fused kernels, and a cut model or the distributed optimizer.

    Of models without experts: of those nearly nothing is published that it could be held against.
    """
    cuts = layout.is_cut or (setup.strategy == "zero1" and not setup.is_deepspeeds)
    other = setup.compiled or setup.is_sharded or setup.lora_rank > 0 or model.experts > 0
    return cuts and setup.kernels == "fused" and not other


def as_megatrons(setup: TrainingSetup) -> TrainingSetup:
    """With its lean kernels (keys and values of groups of heads as they are, SiLU computed again), Adam and loss."""
    unsaid = setup.loss_open and setup.loss == "plain" and setup.compute_bytes < FP32_BYTES
    facts = (LEAN_KERNELS, FUSED_ADAM, JOINED_PROJECTIONS, *[LOSS_IN_PLACE] * unsaid)
    own: dict[str, Any] = {fact.name: fact.value for fact in facts}
    return replace(setup, **own)


def as_cut(setup: TrainingSetup) -> TrainingSetup:
    """Of replicas of a model that is cut: in 16 bits, with fp32 weights in the optimizer, as Megatron-LM has them.

    Its DistributedDataParallel adds gradients up in buffers that they are views of; autocast casts nothing.
    """
    is_mixed = setup.strategy == "ddp" and not setup.lora_rank and setup.parameter_bytes > setup.compute_bytes
    return replace(setup, strategy="zero1", whole_state=True) if is_mixed else setup
