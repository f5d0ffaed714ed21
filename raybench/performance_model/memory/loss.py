"""What the logits and their loss hold, forward and backward, by the kernel that computes it. Bytes."""

import math
from dataclasses import dataclass

from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.setup.training_setup import TrainingSetup

# Per logit. Forward: what the output layer gave, the same without the last token, in fp32, and the log-softmax.
# Backward: the log-softmax and two gradients in fp32.
_PLAIN_16, _PLAIN_32, _PLAIN_BACKWARD = 10, 12, 12
# PyTorch's cross_entropy under autocast on logits in 16 bits: its log-softmax has their type, and is cast for nll_loss
# alone (aten/src/ATen/native/LossNLL.cpp gives log_softmax the type of the logits). Two bytes less, both ways.
_NOT_CAST_UP = 2
# Where PyTorch's DTensor computes it over tensor ranks, by separate operations (loss_parallel, in
# torch/distributed/tensor/parallel/loss.py). Forward: logits, in fp32, less their largest, the exponentials. Backward:
# the log-softmax, zeros for the gradient, the exponentials and their sum.
_SPREAD, _SPREAD_BACKWARD = 14, 16
# transformers (ForCausalLMLoss): beside the logits, which are alive with a model's outputs until the backward pass is
# over, the shifted copy in fp32, the log-softmax and its gradient. Before 4.46, and where a program casts them, those
# that are kept are in fp32 too; published longest contexts of such runs have 15 to 17 bytes. From 4.49 on (February
# 2025) labels are shifted and no logits copied: as the plain one.
_SHIFTED, _KEPT_LOGIT = 12, 4
# The same where nothing is cast up: logits, the shifted copy, the log-softmax; then that, its gradient and theirs.
_NARROW_COPIES = 3
# Compiled with the model, cross entropy reads the logits as they are and gives their gradient so: torch.compile saves
# one copy, and a sum per row. The third: a program that is given the logits (nanoGPT's, transformers) holds them until
# the next micro-batch's are there.
_COMPILED_COPIES = 3
# A fused loss has the logits and, in the same place, their gradient; one copy is counted for kernels that keep both.
_FUSED_COPIES = 2
# The same over logits that transformers has cast to fp32: those and the shifted copy, which becomes their gradient.
_FUSED_FP32 = 8
_CHUNKS = 8  # as torchtune's CEWithChunkedOutputLoss
# TRL's loss in chunks of so many tokens (trl/trainer/sft_trainer.py of 1.4 to 1.10, _chunk): each is multiplied with
# the output layer in fp32, which autocast casts back, and computed again in the backward pass. Bytes per logit of a
# chunk as counted of PyTorch (tests/performance_model/memory/counted_chunks.py): forward the log-softmax, and its
# exponentials for the entropy; backward while the product is computed again, and while the log-softmax's gradient is.
_CHUNK_OF_TRL = 256
_TRL_FORWARD, _TRL_AGAIN, _TRL_BACKWARD = 12, 6, 20
_FP32 = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LossMemory:
    """Of one micro-batch. ``model`` may be a pipeline's stage, which has no logits unless it is the last one."""

    model: Transformer
    setup: TrainingSetup

    @property
    def forward(self) -> float:
        """What the loss has at once, of all tokens but the last of each sample."""
        if self._is_ligers and self._logits:
            return self._chunk_of_liger + self._gradients_of_liger + self._table_gradient
        if self._is_trls:
            logit = self._product_bytes
            return max(self._wide_table + self._chunk * logit, self._chunk * (_TRL_FORWARD + logit))
        plain = _PLAIN_16 if self.setup.compute_bytes < 4 else _PLAIN_32
        return self._logits * (self._bytes_per_logit(_SPREAD if self._is_spread else plain) + self._cap_bytes)

    @property
    def backward(self) -> float:
        """The same of its backward pass; of a module that was counted at least what that has at its fullest."""
        return max(self._backward, self.setup.batch_size * self.model.passing_bytes)

    @property
    def _backward(self) -> float:
        if self._is_ligers and self._logits:
            return self._gradients_of_liger
        if self._is_trls:
            return self._backward_of_trl
        plain = _SPREAD_BACKWARD if self._is_spread else _PLAIN_BACKWARD
        held = self.setup.compute_bytes if self.setup.keeps_logits else 0
        return self._logits * (self._bytes_per_logit(plain) + self._cap_bytes + held)

    @property
    def output_layer_backward(self) -> float:
        """Of the output layer's backward pass: the logits' gradient, with the weight's and the input's."""
        if not self._has_logits:
            return 0.0
        if self._is_ligers:
            return self._gradients_of_liger
        if self._is_trls:
            return self._states + self._gradient_of_trl
        logits = self.setup.tokens * self.model.vocabulary * self.setup.compute_bytes
        if self.setup.loss == "chunked":
            logits //= _CHUNKS
        states = self.setup.tokens * self.model.hidden * self.setup.compute_bytes
        if self.setup.lora_rank:
            return float(logits + states)
        cast = self.table_bytes if self.setup.casts_weights else 0.0
        return states + self.table_cast_bytes + max(float(logits), cast)

    @property
    def table_bytes(self) -> float:
        """Of the output layer, or the token embedding, in the parameters' type."""
        return float(self.model.token_table_parameters * self.setup.parameter_bytes)

    @property
    def table_cast_bytes(self) -> float:
        """Of the same in the compute type."""
        return float(self.model.token_table_parameters * self.setup.compute_bytes)

    @property
    def _has_logits(self) -> bool:
        return self.model.scores

    @property
    def _logits(self) -> int:
        each = 1 + self.model.predicting  # each prediction has its own, which wait for the backward pass
        return each * (self.setup.tokens - self.setup.batch_size) * self.model.vocabulary if self._has_logits else 0

    @property
    def _is_ligers(self) -> bool:
        """Whether chunks are those of Liger's fused kernel, which gives the gradients in the forward pass."""
        return self.setup.loss == "chunked" and self.setup.kernels == "fused"

    @property
    def _chunk_of_liger(self) -> float:
        """Logits of a chunk: of a power of two of tokens, about as large as the hidden states.

        As liger_kernel/ops/fused_linear_cross_entropy.py of liger-kernel 0.8.5 has it.
        """
        model, tokens = self.model, self.setup.tokens
        each = math.ceil(tokens / math.ceil(model.vocabulary / model.hidden))
        return float(min(1 << (each - 1).bit_length(), tokens) * model.vocabulary * self.setup.compute_bytes)

    @property
    def _gradients_of_liger(self) -> float:
        """Of the hidden states, and of the output layer where it is trained: there from the loss on."""
        return self.setup.tokens * self.model.hidden * self.setup.compute_bytes + self._table_gradient

    @property
    def _table_gradient(self) -> float:
        """Of the output layer, in its own type.

        A chunk's part is added to it: liger-kernel 0.6 and 0.7 make that and a copy in fp32, three as large; up to 0.5
        and from 0.8 on it is added in place. One is counted.
        """
        if self.setup.lora_rank:
            return 0.0
        return self.table_bytes if self.setup.casts_weights else self.table_cast_bytes

    @property
    def _is_trls(self) -> bool:
        return self.setup.loss == "chunked-fp32" and self._has_logits

    @property
    def _chunk(self) -> float:
        """Logits of a chunk of TRL's."""
        return float(min(_CHUNK_OF_TRL, self.setup.tokens) * self.model.vocabulary)

    @property
    def _states(self) -> float:
        """Hidden states of all tokens, or their gradient."""
        return float(self.setup.tokens * self.model.hidden * self.setup.compute_bytes)

    @property
    def _read_bytes(self) -> int:
        """An element of the output layer as TRL's loss reads it: gathered from shards in the compute type."""
        if self.setup.lora_rank:
            return self.setup.kept_bytes if self.setup.quantized else self.setup.frozen_bytes
        return self.setup.compute_bytes if self.setup.is_sharded else self.setup.stored_bytes

    @property
    def _product_bytes(self) -> int:
        """An element of what TRL's product gives: autocast computes it in 16 bits in spite of the casts to fp32."""
        return self.setup.compute_bytes if self.setup.has_autocast else _FP32

    @property
    def _copies_of_table(self) -> tuple[float, float]:
        """Of the output layer in fp32, where it is not, and of what autocast casts back."""
        weights = float(self.model.token_table_parameters)
        cast = weights * self.setup.compute_bytes if self.setup.has_autocast else 0.0
        return (weights * _FP32 if self._read_bytes < _FP32 else 0.0), cast

    @property
    def _wide_table(self) -> float:
        return sum(self._copies_of_table)

    @property
    def _gradient_of_trl(self) -> float:
        """Of the output layer: chunks' are added up in its own type."""
        return 0.0 if self.setup.lora_rank else float(self.model.token_table_parameters * self._read_bytes)

    @property
    def _backward_of_trl(self) -> float:
        """While a chunk is computed again, while its gradients are, and while that of the output layer is added.

        Autograd keeps what the product read, the cast or else the copy in fp32. A chunk's gradient of the weight has
        the type of the product, then fp32, then that of the weight; that of its hidden states is laid out among zeros
        for all tokens and added to what there is.
        """
        wide, cast = self._copies_of_table
        weights, added = float(self.model.token_table_parameters), self._gradient_of_trl
        kept = cast or wide
        again = self._wide_table + self._chunk * (_TRL_AGAIN + self._product_bytes) + added
        passing = kept + self._chunk * _TRL_BACKWARD + added
        new = weights * (_FP32 + (self.setup.compute_bytes if cast else 0 if wide else _FP32))
        of_weight = kept + new + added + self._chunk * _TRL_AGAIN if added and not (wide and cast) else 0.0
        return max(3 * self._states + max(again, of_weight), self._states + passing)

    @property
    def _is_spread(self) -> bool:
        """Whether DTensor computes it over tensor ranks: under FSDP, with PyTorch's own tensor parallelism."""
        fsdp = self.setup.is_sharded and self.setup.strategy != "zero3"
        return fsdp and self.setup.sequence_shards > 1 and not self.setup.compiled

    @property
    def _cap_bytes(self) -> float:
        """Per logit: what tanh gives, kept where logits are capped before the loss."""
        whole = self.model.caps_logits and self.setup.loss not in ("fused", "chunked", "chunked-fp32")
        return float(self.setup.compute_bytes if whole else 0)

    def _bytes_per_logit(self, plain: int) -> float:
        """``plain``: what cross entropy in fp32 takes."""
        each = self.setup.compute_bytes
        if self.setup.takes_fused_loss:
            return float(_FUSED_COPIES * each)
        taken = {
            "plain": _COMPILED_COPIES * each if self.setup.compiles_loss else plain,
            "autocast": plain - _NOT_CAST_UP,
            "compiled": _COMPILED_COPIES * each,
            "fused": _FUSED_COPIES * each,
            "transformers": _SHIFTED + each,
            "transformers-whole": plain,
            "transformers-kept": _SHIFTED + _KEPT_LOGIT,
            "fused-fp32": _FUSED_FP32,
            "narrow": _NARROW_COPIES * each,
            "chunked": plain / _CHUNKS,
        }
        return float(taken[self.setup.loss])
