"""What a program that trains decides for its users: values of a setup, each with the file that says so."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from raybench.performance_model.programs.releases import Releases, Requirement
from raybench.performance_model.setup.strategies import Strategy

Method = Literal["full", "lora", "qlora"]
Cut = Literal["tensor", "context", "pipeline", "expert"]
Starts = Literal["", "torchtitan", "megatron-lm", "transformers", "raybench"]
Value = bool | int | float | str

# Models by ``model_type``: with a table of positions or a bias for distance, and with LayerNorm and rotary positions.
NOT_ROTARY = ("gpt2", "gpt_bigcode", "gpt_neo", "opt", "bloom", "mpt")
OF_LAYER_NORM = ("gpt_neox", "gptj", "codegen", "falcon", "phi")
FSDP: tuple[Strategy, ...] = ("fsdp", "fsdp-grad-op", "fsdp-hybrid")
# Of what a fact ``needs``: by torch.compile, or not, with selective checkpointing, a 4-bit base that is not GPTQ's.
COMPILED: Mapping[str, Value] = MappingProxyType({"compiled": True})
EAGER: Mapping[str, Value] = MappingProxyType({"compiled": False})
SELECTIVE: Mapping[str, Value] = MappingProxyType({"selective": True})
NF4: Mapping[str, Value] = MappingProxyType({"packing": "nf4"})
COMPUTED = "computed"  # of a size in bytes: the type of the computation
AS_THE_MODEL = "as the model has it"  # of dropout: that of its config.json
# What a fact may be of: fields of a setup, and whether the model drops, by the name that a user reads; and which of
# them are sizes of an element.
SIZES = {
    "gradient_bytes": "gradients added up in",
    "reduce_bytes": "gradients reduced in",
    "parameter_bytes": "weights stored in",
    "moment_bytes": "moments of the optimizer in",
    "base_bytes": "frozen base in",
}
_TYPES = {"4": "fp32", "2": "16 bits"}
_ELEMENTS = {"fp8": "bf16", "tf32": "fp32"}  # what is stored where products alone are in another type
LABELS = SIZES | {
    "kernels": "kernels",
    "loss": "loss",
    "compiled": "compiled",
    "native_attention": "attention by the GPU's own instructions",
    "masked_attention": "attention with a mask",
    "reduces_each": "each micro-batch reduced",
    "bucket_view": "gradients as views of buckets",
    "sequence_parallel": "sequence parallelism",
    "overlaps": "gradients and weights sent beside computation",
    "checkpointing": "activation checkpointing",
    "selective": "selective checkpointing",
    "saves_exchanged": "exchanged tokens kept by it",
    "offloads_activations": "activations on the CPU",
    "fused_optimizer": "fused optimizer",
    "second_list": "a second list in the update",
    "joined_projections": "joined projections",
    "keeps_least": "leanest kernels",
    "has_8bit_inputs": "inputs kept in 8 bits",
    "stores_remainders": "fp32 weights as the bits that bf16 ones lack",
    "on_streams": "gathered on streams",
    "holds_inputs": "inputs held by hooks",
    "frozen_blocks": "frozen blocks",
    "wide_norms": "norms in fp32",
    "wide_scores": "softmax of stored scores in fp32",
    "whole_attention": "attention of all scores",
    "flash_attention": "flash attention",
    "upcast": "base cast up",
    "gathers_to_save": "whole model gathered to be saved",
    "default_bucket": "buckets of DeepSpeed's size",
    "packing": "packing",
    "packs_experts": "experts in few bits",
    "frozen_inputs": "inputs of frozen layers",
    "optimizer_weights": "weights in the optimizer",
    "adapter_dropout": "dropout of adapters",
    "drops": "dropout",
    "whole_state": "state whole",
    "gradient_buffers": "gradients in Megatron-Core's buffers",
    "autocast": "autocast",
    "vocabulary_multiple": "vocabulary padded to a multiple of",  # a rank of those that it is cut over
}
# Losses that --loss has no value for, in words; others are as it has them.
LOSSES: Mapping[str, str] = MappingProxyType({
    "autocast": "plain, its softmax in 16 bits",
    "compiled": "compiled with the model",
    "chunked-fp32": "in chunks of fp32 logits",
    "fused-fp32": "fused over fp32 logits",
    "narrow": "in 16 bits throughout",
    "transformers-whole": "transformers from 4.49 on",
    "transformers-kept": "transformers with fp32 logits kept",
})  # fmt: skip
# Of a flag, in short, that it is so and that it is not; of others the label, and "no" before it.
_FLAGS = {
    "compiled": ("compiled", "not compiled"),
    "native_attention": ("attention by the GPU's own instructions", "attention by Ampere's instructions"),
    "masked_attention": ("attention with a mask", "attention without a mask"),
    "reduces_each": ("each micro-batch reduced", "the last micro-batch reduced"),
    "on_streams": ("gathered on streams", "gathered by fully_shard"),
    "flash_attention": ("flash attention", "scores of attention stored (else --flash-attention)"),
    "packs_experts": ("experts in few bits", "experts in 16 bits"),
    "upcast": ("base cast up", "base not cast up"),
    "wide_norms": ("norms in fp32", "norms in 16 bits"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One value that a program has, and the ``source`` (a file of it) that says so.

    ``strategies`` and ``methods``: with which alone; none: with all. ``needs``: what else has to be so, of fields whose
    values are known. ``is_default``: its users may choose another and hardly do. ``is_open``: they choose, and this is
    the one that takes most, of attention that of flash kernels also where some store scores; it stays unknown. Sizes of
    an element are bytes, or ``COMPUTED``. ``families``: of which models alone, as ``model_type`` of their config.json
    has it. ``releases``: of which alone; it is taken only where the release is said, and of two that hang together the
    one that takes more comes first, as it is taken, open, where either may be meant (``of_release``). Raises ValueError
    for a field that there is not.
    """

    name: str
    value: Value
    source: str
    strategies: tuple[Strategy, ...] = ()
    methods: tuple[Method, ...] = ()
    needs: Mapping[str, Value] = field(default_factory=lambda: MappingProxyType({}))
    is_default: bool = False
    is_open: bool = False
    families: tuple[str, ...] = ()
    releases: Releases | None = None

    def __post_init__(self) -> None:
        unknown = {self.name, *self.needs} - {*LABELS, "dtype"}
        if unknown:
            raise ValueError(f"a program has no fact of {', '.join(sorted(unknown))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """An ``option`` that a program cannot be told: a ``value`` of a setup's field, or of ``dtype``, and its ``source``.

    Only of what is surely not there: a fact that an option contradicts is no such thing, people change programs.
    """

    option: str
    name: str
    value: Value
    source: str

    def __post_init__(self) -> None:
        if self.name not in {*LABELS, "dtype", "offload", "optimizer"}:
            raise ValueError(f"a program lacks no {self.name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Families:
    """Models that a program has no code for, by ``model_type`` of their config.json, and the ``source`` that says so.

    ``only``: those that it has alone; else ``none_of``: those that it surely has not. ``has``: what it has, in words.
    """

    source: str
    has: str
    only: tuple[str, ...] = ()
    none_of: tuple[str, ...] = ()

    def lack(self, family: str) -> bool:
        """Whether a model is none of its; False of one whose family is not known."""
        return bool(family) and (family not in self.only if self.only else family in self.none_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program: ``facts`` of it, of which the first that holds counts for a field.

    ``strategies``, ``cuts`` and ``methods``: what it has of each, the usual strategy first; ``unplanned`` and
    ``unplanned_cuts``: those that it has, too, and no plan tries. ``selective``: whether its
    selective checkpointing keeps what torchtitan's does, else why not. ``whole_experts``: whether those that are
    spread are whole on tensor ranks; None: either, and ``usually_whole_experts`` where
    nobody says; ``cut_experts``: of which releases they may be cut all the same.
    ``deals_sequences``: whether each of the ranks that a sequence is
    cut over has an early part and a late one. ``dtensors``: whether tensor ranks' products are DTensor's whatever the
    strategy; None: either. ``trains_given``: a model that its user has made, before DeepSpeed was
    told of it or after. ``lacks``: options that it has not. ``families``: which models it trains, where its list is
    known. ``fused_loss``: what ``--loss fused`` is of it, where that
    is not a loss on logits in the compute type; ``plain_loss`` the same of ``--loss plain``, ``chunked_loss`` of
    ``--loss chunked`` with plain kernels. ``recomputes_modules``:
    whether it computes single modules again, as Megatron-LM; ``predicts_ahead``: whether it trains layers of
    multi-token prediction. ``planned``: what a plan has it told, before its facts.
    ``timing``: the program by whose published step times it is judged (``step/spreads.py``). ``starts``: whose command
    a plan prints; ``settings``: its own words for what a plan decides, where it prints no command, with ``{batch}``,
    ``{accumulation}``, ``{micro_batches}`` of a step of all ranks, ``{samples}`` of a step, ``{length}``, ``{ranks}``,
    ``{nodes}``, ``{checkpointing}`` (true or false), ``{kept}`` (the other); ``old_settings``: the same of releases
    before each of these, oldest first. ``accumulates``: whether a step may have several micro-batches.
    ``requirements``: which releases of a
    library its own need, oldest first. ``instead``: of cuts that it has not, what it has in their place.
    ``late_cuts``: of which releases cuts are that not all have. ``counts_apart``:
    aliases whose releases are not those of the program.
    ``restarted``: releases of that number and above are older than all others: it counted anew since.
    ``release``: that was said, of the program by the name ``named``; empty: as it is today. ``release_note``: which
    releases of a library follow from it, or that nothing is known of it.
    """

    name: str
    title: str
    strategies: tuple[Strategy, ...]
    facts: tuple[Fact, ...]
    aliases: tuple[str, ...] = ()
    cuts: tuple[Cut, ...] = ()
    methods: tuple[Method, ...] = ("full",)
    unplanned: tuple[Strategy, ...] = ()
    unplanned_cuts: tuple[Cut, ...] = ()
    lacks: tuple[Lack, ...] = ()
    families: Families | None = None
    fused_loss: Fact | None = None
    plain_loss: Fact | None = None
    chunked_loss: Fact | None = None
    selective: bool | str = False
    recomputes_modules: bool = False
    predicts_ahead: bool = False
    whole_experts: bool | None = None
    cut_experts: Releases | None = None
    usually_whole_experts: bool = False
    deals_sequences: bool = False
    dtensors: bool | None = None
    trains_given: bool = False
    planned: tuple[Fact, ...] = ()
    timing: str = ""
    starts: Starts = ""
    settings: str = ""
    old_settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    accumulates: bool = True
    requirements: tuple[Requirement, ...] = ()
    instead: Mapping[Cut, str] = field(default_factory=lambda: MappingProxyType({}))
    late_cuts: Mapping[Cut, Releases] = field(default_factory=lambda: MappingProxyType({}))
    counts_apart: tuple[str, ...] = ()
    restarted: str = ""
    release: str = ""
    named: str = ""
    release_note: str = ""

    @property
    def asked(self) -> str:
        """As it is asked for: ``transformers``, or ``transformers==4.35``."""
        return f"{self.named or self.name}=={self.release}" if self.release else self.name

    def has_strategy(self, strategy: Strategy, world_size: int) -> bool:
        """Whether it has it; of one rank, which holds all of the model by FSDP too, DDP is as well as that."""
        is_alone = world_size == 1 and strategy == "ddp" and self.strategies[0] in FSDP
        return strategy in (*self.strategies, *self.unplanned) or is_alone

    @property
    def names(self) -> tuple[str, ...]:
        """By which it may be asked for."""
        return self.name, *self.aliases


def usual_strategy(program: Program | None, world_size: int) -> Strategy:
    """Where nobody says: the program's first, and of one rank, which spreads nothing, DDP if it has that."""
    if program is None or (world_size == 1 and "ddp" in program.strategies):
        return "ddp"
    return program.strategies[0]


def told(fact: Fact, program: str, compute: str) -> str:
    """``chunked, as torchtune has it (torchtune/modules/loss/...)``: what was taken of a program."""
    by_default = " by default" if fact.is_default else ""
    return f"{in_words(fact, compute)}, as {program} has it{by_default} ({fact.source})"


def in_words(fact: Fact, compute: str) -> str:
    """The value as a user reads it; ``compute``: the type of the computation."""
    if isinstance(fact.value, bool):
        return "yes or no" if fact.is_open else "yes" if fact.value else "no"
    if fact.name in SIZES:
        value = (
            _ELEMENTS.get(compute, compute) if fact.value == COMPUTED else _TYPES.get(str(fact.value), str(fact.value))
        )
    else:
        value = str(fact.value)
        value = LOSSES.get(value, value) if fact.name == "loss" else value
    if fact.is_open:
        return "either" if isinstance(fact.value, bool) else f"at most {value}"
    return value


def in_short(fact: Fact, compute: str) -> str:
    """``loss chunked``, ``not compiled``: on a line with others."""
    label = LABELS[fact.name]
    if fact.is_open or not isinstance(fact.value, bool):
        return f"{label} {in_words(fact, compute)}"
    return _FLAGS.get(fact.name, (label, f"no {label}"))[0 if fact.value else 1]


def every_name(programs: Iterable[Program]) -> tuple[str, ...]:
    """All names, the programs' own first."""
    found = tuple(programs)
    return (*(one.name for one in found), *(name for one in found for name in one.aliases))
