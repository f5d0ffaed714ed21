"""What is to be estimated: a model, how it is trained, and the machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from raybench.errors import UsageError
from raybench.hardware.gpus import Gpu
from raybench.performance_model.cost import Price
from raybench.performance_model.layout import Layout, Network
from raybench.performance_model.memory.rank import SHORT_SHARE
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.programs.program import Fact, Program
from raybench.performance_model.programs.releases_of_transformers import LOOSE_EXPERTS, WITH_SINKS
from raybench.performance_model.request.own_runs import OwnRun
from raybench.performance_model.setup.element_types import FP32_BYTES
from raybench.performance_model.setup.kernels import Loss
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.performance_model.step.attention import is_before_flash
from raybench.performance_model.step.efficiency import Efficiency


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateRequest:
    """What is to be estimated. ``efficiency``: how fast computation is, else as published trainings were.

    Without a ``network`` nothing that takes its time is estimated; ``network_unknown`` says what to give,
    ``price_unknown`` why a node type has no list price. Where the
    kernels or the loss are not known, the setup has those that take most memory, and what takes least counts as well.
    ``gradients_known``: the type in which they are added up was given. ``adapter_dropout_known``: whether adapters
    have a dropout was; else the setup has one, which takes most, and the least has none. ``dropout_known``: the same of
    what attention and the MLP give, which is the model's. ``streams_known``: FSDP's form was given; else the
    most is that of either, whatever the setup has. ``scales_known``: the type of a 4-bit base's was given.
    ``mean_tokens``: of a sample, where samples are packed to the sequence length, or where attention is masked padded
    to it.
    ``other_sizes``: bytes of GPUs of the same name, where nobody says which. ``checkpointing_known``: whether blocks
    are computed again was said; else none are, and what fits only if they are is open.
    ``power_watts``: what each GPU is limited to; None: to what it was made for. ``program``: that trains, where it is
    named; ``said``: the fields of its facts that the user gave, which win, ``taken`` what was taken of it, ``asked``
    the request before that. ``timing``: by whose published step times it is judged where no program is named, as a way
    of a plan that one program alone starts. ``own_runs``: of whoever asks, whose errors this one's are like.
    ``is_started``: a way of a plan, whose memory is that of the kernels and losses of what starts it, and not of each
    that may be said.
    """

    model: Transformer
    setup: TrainingSetup
    layout: Layout
    network: Network | None
    dtype: str = "bf16"
    reduce_bytes: int = 4
    accumulation: int = 1
    gpu: Gpu | None = None
    memory_bytes: int | None = None
    efficiency: Efficiency | None = None
    price: Price | None = None
    epoch_samples: int | None = None
    network_unknown: str | None = None
    price_unknown: str | None = None
    basis: Mapping[str, str] = field(default_factory=dict)  # where each given figure comes from
    kernels_known: bool = True
    loss_known: bool = True
    power_watts: float | None = None
    other_sizes: tuple[int, ...] = ()
    checkpointing_known: bool = True
    gradients_known: bool = False
    adapter_dropout_known: bool = True
    dropout_known: bool = True
    streams_known: bool = True
    scales_known: bool = True
    mean_tokens: int | None = None
    program: Program | None = None
    timing: str = ""
    said: frozenset[str] = frozenset()
    taken: tuple[Fact, ...] = ()
    asked: "EstimateRequest | None" = None
    own_runs: tuple[OwnRun, ...] = ()
    is_started: bool = False

    def __post_init__(self) -> None:
        if self.mean_tokens is not None and not 1 <= self.mean_tokens <= self.setup.sequence_length:
            raise UsageError(
                f"--mean-tokens is {self.mean_tokens}; a sample has from 1 to the {self.setup.sequence_length} of "
                "--sequence-length"
            )
        if self.accumulation < 1:
            raise UsageError(f"{self.accumulation} micro-batches a step: there must be at least 1")

    @property
    def is_of_torchtitan(self) -> bool:
        """Whether torchtitan runs it though no program is named: a way that it alone has, or that only it makes fit."""
        return self.program is None and bool(self.timing)

    @property
    def is_of_a_release(self) -> bool:
        """Whether its program's release is said, so that nothing of others may be meant."""
        return self.program is not None and bool(self.program.release)

    @property
    def adds_up_whole(self) -> bool:
        """Whether its program adds whole gradients up, and reduces them in the last micro-batch of a step."""
        return any(fact.name == "reduces_each" and not fact.value for fact in self.taken)

    @property
    def sure_bytes(self) -> float:
        """The largest peak that is sure to fit, less than the memory by what estimates are off; infinite if unknown."""
        if self.memory_bytes is None:
            return float("inf")
        return sure_bytes(self.memory_bytes)

    @property
    def counted_share(self) -> float:
        """Share of the tokens that are computed which are no padding: all of them, where samples are packed."""
        is_padded = self.mean_tokens is not None and bool(self.setup.masked_attention)
        return (self.mean_tokens or 0) / self.setup.sequence_length if is_padded else 1.0

    @property
    def samples_share(self) -> float:
        """Sequences that a sample takes: one, or where samples are packed a part of one."""
        is_packed = self.mean_tokens is not None and not self.setup.masked_attention
        return (self.mean_tokens or 0) / self.setup.sequence_length if is_packed else 1.0

    @property
    def may_store_scores(self) -> bool:
        """Whether attention may store its scores although nobody says so: on a GPU older than its flash kernels.

        Or with sinks, of which few kernels know: who trains gpt-oss on long samples named one, or ran out of memory. So
        may who names no program; a plan's ways are started with such a kernel, or told to store them.
        Those of PyTorch that are left there take no groups of heads that share keys (transformers issue 48633), nor has
        what such a GPU runs to be new. A program's release that has PyTorch's attention decides it where heads share
        none, and a program that brings its own kernel always.
        """
        is_open = self.setup.flash_attention and "flash_attention" not in self.said
        named = [fact for fact in self.taken if fact.name == "flash_attention"]
        has_sinks = self.program is None and not self.is_started and self.model.family in WITH_SINKS
        if is_open and (has_sinks or any(fact.is_open for fact in named)):
            return True
        if not is_open or not is_before_flash(self.gpu):
            return False
        if self.is_of_a_release and named:
            return self.model.key_value_heads < self.model.heads and named[0].is_default
        return all(fact.is_default for fact in named)

    @property
    def may_have_default_bucket(self) -> bool:
        """Whether ZeRO-3's bucket may be of DeepSpeed's default size, which no option says, with transformers' loss."""
        is_known = "default_bucket" in self.said or any(fact.name == "default_bucket" for fact in self.taken)
        return self.setup.strategy == "zero3" and not self.setup.default_bucket and not is_known

    @property
    def may_leave_experts(self) -> bool:
        """Whether experts of a packed base may stay in 16 bits although nobody says so.

        bitsandbytes packs linear layers, and transformers' experts are none from 5 on (bitsandbytes issue 1849).
        """
        setup = self.setup
        is_known = "packs_experts" in self.said or any(fact.name == "packs_experts" for fact in self.taken)
        is_packed = setup.quantized and setup.packing != "gptq" and setup.packs_experts
        return is_packed and self.model.experts > 0 and not is_known

    @property
    def may_keep_unpacked(self) -> bool:
        """Whether experts that were packed all the same may stay unpacked as well, once each was used.

        bitsandbytes before 0.50 counts modules whose unpacked weights are cached by hooks, of which non-reentrant
        checkpointing skips the second where it stops early: from then on nothing is let go (bitsandbytes pull request
        1999, axolotl pull request 3915). Axolotl packs experts so (src/axolotl/monkeypatch/moe_quant.py).
        """
        packs = self.program is not None and self.program.name == "axolotl"
        return packs and self.setup.checkpointing and self.may_leave_experts

    @property
    def may_compute_wide(self) -> bool:
        """Whether what a 4-bit base has not packed may be computed in fp32 although nobody says so.

        Without autocast it is, where peft has prepared the model (peft/utils/other.py, prepare_model_for_kbit_training:
        embeddings and norms in fp32): bitsandbytes gives what a layer puts out in the type of what it reads
        (bitsandbytes/nn/modules.py, Linear4bit), so that scores, activations and logits are in fp32.
        """
        setup = self.setup
        is_packed = setup.quantized and setup.packing in ("nf4", "nf4-single") and not setup.strategy.startswith("fsdp")
        is_known = self.kernels_known or any(fact.name == "upcast" for fact in self.taken)
        return is_packed and not setup.autocast and setup.compute_bytes < FP32_BYTES and not is_known

    @property
    def experts_left_by(self) -> str:
        """Who may leave them so: ``transformers from 5 on``; empty: nobody."""
        since = "" if self.model.family in LOOSE_EXPERTS else " from 5 on"
        beside = " or, beside those, bitsandbytes before 0.50" if self.may_keep_unpacked else ""
        return f"transformers{since}{beside}" if self.may_leave_experts else ""

    @property
    def may_have_single_scales(self) -> bool:
        """Whether scales of a 4-bit base may be in fp32 although nobody says so: bitsandbytes' default."""
        is_packed = self.setup.quantized and self.setup.packing == "nf4" and not self.scales_known
        return is_packed and self.program is None and not self.is_started

    @property
    def is_known(self) -> bool:
        """Whether one estimate holds, of kernels and a loss that are known; else that of the heaviest is the most."""
        return self.kernels_known and self.loss_known


def sure_bytes(limit: float) -> float:
    """The largest peak that is sure to fit into so many bytes."""
    return limit / (1 + SHORT_SHARE)


def most_setup(request: EstimateRequest) -> TrainingSetup:
    """The setup with what takes most: of a compiled model a loss that is computed outside of it, unless that is known.

    Programs that compile block by block leave it out: PrimeIntellect-ai/prime-rl, whose cross entropy on logits in fp32
    took twice the memory of a compiled one; torchtitan up to April 2025, where no release of it is said. A loop of
    one's own may hold its logits.
    """
    setup = request.setup
    if setup.takes_fused_loss:
        return replace(setup, loss_at_most=True)
    if setup.compiles_loss and setup.loss_open:
        return replace(setup, loss="transformers")
    if setup.compiled and setup.loss_open and setup.loss == "fused" and not request.is_of_a_release:
        return replace(setup, loss="plain", loss_open=False)  # of an open one that is plain it would be compiled
    return replace(setup, own_loop=False, keeps_logits=setup.own_loop) if setup.own_loop else setup


def _least_loss(setup: TrainingSetup) -> Loss:
    """The loss that was said, as it takes least; of a loop of one's own on logits that nobody holds.

    Compiled with the model, their gradient takes their place, as in a fused one.
    """
    if setup.loss == "transformers":  # whoever holds the copy lets go of it before the backward pass, or after:
        return "transformers-whole"  # published peaks are between
    if not setup.own_loop or setup.compute_bytes >= FP32_BYTES:
        return setup.loss
    if setup.compiles_loss:
        return "fused"
    return "autocast" if setup.casts_weights else "narrow"  # FSDP's mixed precision casts no operation


def least_model(request: EstimateRequest) -> Transformer:
    """The model, without dropout where nobody says whether it has one."""
    return request.model if request.dropout_known else replace(request.model, drops=False)


def _opened(request: EstimateRequest) -> dict[str, Any]:
    """Of the setup, by what its program's releases or users leave open: what takes less."""
    found: dict[str, Any] = {
        fact.name: not fact.value
        for fact in request.taken
        if fact.is_open and isinstance(fact.value, bool) and not (fact.name == "flash_attention" and fact.value)
    }
    if found.pop("reduces_each", False):
        found["whole_gradients"] = False
    if any(fact.name == "frozen_inputs" and fact.is_open for fact in request.taken):
        found["frozen_inputs"] = "dropped"
    if any(fact.name == "packing" and fact.is_open for fact in request.taken):
        found["packing"] = "nf4"
    if request.dtype != "bf16":  # weights in fp8 lack more than 16 bits of fp32, and fp16 ones are no part of it
        found.pop("stores_remainders", None)
    apart = ("drops", "checkpointing")  # which is the model's, and what is computed again is told apart
    return {name: value for name, value in found.items() if name not in apart}


def _in_8_bits(lean: TrainingSetup, request: EstimateRequest) -> TrainingSetup:
    """What Megatron-LM may hold in fp8 as well, of a computation in it: weights, and what SwiGLU reads."""
    may_be_megatrons = request.program is None or request.program.recomputes_modules
    if request.dtype != "fp8" or not may_be_megatrons or lean.is_sharded:
        return lean
    inner = lean.has_8bit_inner or "has_8bit_inner" not in request.said
    return replace(lean, has_8bit_weights=not lean.lora_rank, has_8bit_inner=inner)


def least_setup(request: EstimateRequest) -> TrainingSetup:
    """The setup with what takes least memory, wherever the request leaves it open: fused kernels differ as well."""
    # DeepSpeed's bf16 optimizer shards state over replicas without ZeRO as well, and has whole gradients in fp32; that
    # of fp16 shards nothing (runtime/bf16_optimizer.py, fp16/fused_optimizer.py)
    replicas = request.layout.is_cut and request.setup.strategy == "ddp" and not request.setup.lora_rank
    may_be_deepspeeds = request.program is None or "zero2" in request.program.strategies
    shards_anyway = replicas and request.dtype == "bf16" and may_be_deepspeeds
    lean = replace(request.setup, on_streams=False, reshards_in_pipeline=True)
    if shards_anyway:
        lean = replace(lean, strategy="zero1", gradient_bytes=FP32_BYTES)
    if request.setup.selective and not request.is_started and not request.is_of_a_release:
        lean = replace(lean, saves_exchanged=False)  # torchtitan 0.2 with Qwen3, and before it with any model
    if not request.is_known:  # that is of transformers' checkpointing over frozen blocks
        lean = replace(lean, holds_inputs=False)
    if not request.kernels_known:
        lean = replace(lean, kernels="fused", upcast=False, wide_scores=False)
    if lean.kernels == "fused":
        lean = replace(lean, keeps_least=True, has_8bit_inputs=request.dtype == "fp8")
        lean = _in_8_bits(lean, request)
    if request.dtype == "fp8" and lean.strategy.startswith("fsdp"):
        lean = replace(lean, gathers_8bit=True)
    open_gradients = lean.is_zero and not request.gradients_known and not shards_anyway
    if open_gradients:  # a program may add them up in the compute type as well: DeepSpeed, --grad-reduce-in-bf16
        lean = replace(lean, gradient_bytes=min(lean.gradient_bytes, lean.compute_bytes))
    says_optimizer = any(fact.name == "fused_optimizer" for fact in request.taken)
    of_deepspeed = request.setup.is_deepspeeds or request.setup.strategy == "zero3"
    if not request.is_known or (of_deepspeed and not says_optimizer):
        lean = replace(lean, fused_optimizer=True)  # as most programs', and DeepSpeed's own
    if not request.adapter_dropout_known:
        lean = replace(lean, adapter_dropout=False)
    lean = replace(lean, **_opened(request))
    return replace(lean, loss=_least_loss(lean) if request.loss_known else "chunked")
