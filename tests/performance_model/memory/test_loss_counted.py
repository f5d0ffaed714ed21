"""What the loss of transformers holds at once, counted of PyTorch, logit by logit."""

import pytest
import torch

from raybench.performance_model.memory.loss import LossMemory
from raybench.performance_model.models.presets import preset_named
from raybench.performance_model.setup.training_setup import TrainingSetup
from tests.performance_model.absent_gpu import Counted

TOKENS, WORDS = 128, 512


@pytest.mark.parametrize(("kind", "each"), [(torch.bfloat16, 2), (torch.float32, 4)])
def test_logits_in_fp32_are_kept_beside_their_shifted_copy_as_those_in_16_bits_are(
    kind: torch.dtype, each: int
) -> None:
    """Qwen2.5 7B by QLoRA on a T4, all in fp32, ran out of memory with two samples (fitcheck): told to fit by 14."""
    made = torch.randn(1, TOKENS, WORDS, dtype=kind, requires_grad=True)
    labels = torch.randint(0, WORDS, (TOKENS - 1,))
    with Counted("cpu") as counted:
        logits = made * 1  # which the model's outputs hold
        shifted = logits.float()[:, :-1].contiguous()
        loss = torch.nn.functional.cross_entropy(shifted.view(-1, WORDS), labels)
        del shifted
        loss.backward()  # type: ignore[no-untyped-call]
    assert logits.shape == made.shape
    model = preset_named("gpt2").resized(vocabulary=WORDS)
    setup = TrainingSetup(batch_size=1, sequence_length=TOKENS, compute_bytes=each, loss="transformers")
    told = LossMemory(model=model, setup=setup)
    assert max(told.forward, told.backward) == pytest.approx(counted.peak, rel=0.01)
