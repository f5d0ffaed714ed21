"""Transformers by their shape: exact parameter counts and floating-point operations, without building one.

Shapes of the presets are the published configurations; the counts that follow are those of the models as released
(tests compare them). A preset's weights are not needed: only its shape is.
"""

from dataclasses import dataclass, replace
from typing import Literal

from raybench.errors import UsageError, unknown_name

# Ten times what has been published, and more: beyond it somebody mistyped.
_MOST = {
    "layers": 10_000,
    "hidden": 10**6,
    "heads": 10**5,
    "feedforward": 10**7,
    "vocabulary": 10**8,
    "context": 10**9,
}

OF_EXPERTS = frozenset({"gate_proj", "up_proj", "down_proj"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """A decoder-only transformer.

    ``feedforward``: inner width of the MLP; ``gated``: SwiGLU (three matrices) instead of two. ``kv_heads`` below
    ``heads``: grouped-query attention. ``positions``: rows of a learned position table, 0 with rotary positions.
    ``experts``: MLPs of a layer, 0 for one that all tokens pass; ``experts_per_token`` of them compute a token.
    ``head_norms``: q and k of each head are normalised. ``biases``: in every linear layer; ``qkv_biases``: in those of
    q, k and v only. ``tied``: the output layer is the token embedding. ``caps_scores``, ``caps_logits``:
    by tanh, which no kernel of PyTorch fuses. ``formula_gelu``: GELU as eight operations; ``drops``: elements of what
    attention and the MLP give are dropped in training.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    feedforward: int
    vocabulary: int
    kv_heads: int = 0  # 0: as many as heads
    head_width: int = 0  # 0: hidden / heads
    gated: bool = True
    norm: Literal["rms", "layer"] = "rms"
    biases: bool = False
    qkv_biases: bool = False
    tied: bool = False
    positions: int = 0
    context: int = 2048
    experts: int = 0
    experts_per_token: int = 0
    head_norms: bool = False
    norms_per_layer: int = 2
    caps_scores: bool = False
    caps_logits: bool = False
    formula_gelu: bool = False
    drops: bool = False

    def __post_init__(self) -> None:
        for field, most in _MOST.items():
            if not 1 <= getattr(self, field) <= most:
                raise UsageError(f"{field} of a transformer is {getattr(self, field)}; it must be from 1 to {most}")
        if self.kv_heads < 0 or self.head_width < 0 or self.positions < 0:
            raise UsageError(f"key and value heads are {self.kv_heads}; there must be at least 1")
        if self.head_width > _MOST["hidden"] or self.experts > _MOST["heads"]:
            raise UsageError(f"a head of {self.head_width} and {self.experts} experts are more than a transformer has")
        if not 0 <= self.experts_per_token <= self.experts or (self.experts and not self.experts_per_token):
            raise UsageError(f"{self.experts_per_token} of {self.experts} experts cannot compute each token")
        if self.hidden % self.heads and not self.head_width:
            raise UsageError(f"hidden size {self.hidden} is not a multiple of {self.heads} heads")
        if self.heads % (self.kv_heads or self.heads):
            raise UsageError(f"{self.heads} heads cannot share {self.kv_heads} key and value heads evenly")

    @property
    def head_size(self) -> int:
        """Width of one head."""
        return self.head_width or self.hidden // self.heads

    @property
    def key_value_heads(self) -> int:
        """Heads of keys and of values."""
        return self.kv_heads or self.heads

    def linears(self) -> dict[str, tuple[int, int]]:
        """(inputs, outputs) of each linear layer of one block, by the name Llama's code gives it."""
        attention, shared = self.heads * self.head_size, self.key_value_heads * self.head_size
        layers = {
            "q_proj": (self.hidden, attention),
            "k_proj": (self.hidden, shared),
            "v_proj": (self.hidden, shared),
            "o_proj": (attention, self.hidden),
            "up_proj": (self.hidden, self.feedforward),
            "down_proj": (self.feedforward, self.hidden),
        }
        return layers | ({"gate_proj": (self.hidden, self.feedforward)} if self.gated else {})

    @property
    def linear_parameters_per_layer(self) -> int:
        """Weights of one block's linear layers, without biases: what 4-bit quantisation stores in 4 bits."""
        return sum(inputs * outputs * self.copies(name) for name, (inputs, outputs) in self.linears().items())

    def copies(self, linear: str) -> int:
        """How many of a linear layer a block has: one, or one for each expert."""
        return max(1, self.experts) if linear in OF_EXPERTS else 1

    @property
    def idle_parameters(self) -> int:
        """Weights that a token does not pass: of the experts that are not chosen for it."""
        idle = max(0, self.experts - self.experts_per_token)
        linears = self.linears()
        return self.layers * idle * sum(linears[name][0] * linears[name][1] for name in OF_EXPERTS & set(linears))

    @property
    def norm_parameters(self) -> int:
        """Parameters of one normalisation: a scale, with LayerNorm also a shift."""
        return self.hidden * (2 if self.norm == "layer" else 1)

    @property
    def parameters_per_layer(self) -> int:
        """All parameters of one block: linear layers, biases, normalisations, the router."""
        linears = self.linears()
        biased = linears if self.biases else ("q_proj", "k_proj", "v_proj") if self.qkv_biases else ()
        heads = 2 * self.head_size if self.head_norms else 0
        rest = sum(linears[name][1] for name in biased) + self.experts * self.hidden + heads
        return self.linear_parameters_per_layer + rest + self.norms_per_layer * self.norm_parameters

    def block_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of one block's parameters as PyTorch holds them: (outputs, inputs) of a linear layer, its bias."""
        shapes: list[tuple[int, ...]] = []
        for name, (inputs, outputs) in self.linears().items():
            biased = self.biases or (self.qkv_biases and name in ("q_proj", "k_proj", "v_proj"))
            shapes += [(outputs * self.copies(name), inputs), *([(outputs,)] if biased else [])]
        shapes += [(self.experts, self.hidden)] if self.experts else []
        shapes += [(self.head_size,)] * 2 if self.head_norms else []
        return (*shapes, *self._norm_shapes() * self.norms_per_layer)

    def expert_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Those of them that are of experts."""
        linears = self.linears()
        names = [name for name in linears if name in OF_EXPERTS] if self.experts else []
        return tuple((linears[name][1] * self.copies(name), linears[name][0]) for name in names)

    def outer_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the parameters outside the blocks."""
        tables = [(self.vocabulary, self.hidden)] * (1 if self.tied else 2)
        return (*tables, *([(self.positions, self.hidden)] if self.positions else []), *self._norm_shapes())

    def _norm_shapes(self) -> tuple[tuple[int, ...], ...]:
        return ((self.hidden,),) * (2 if self.norm == "layer" else 1)

    def adapter_shapes(self, rank: int, targets: tuple[str, ...] = ()) -> tuple[tuple[int, ...], ...]:
        """Shapes of one block's LoRA adapters: (rank, inputs) and (outputs, rank) a target."""
        linears = self._checked(targets)
        return tuple(
            shape
            for name in targets or linears
            for shape in ((rank * self.copies(name), linears[name][0]), (linears[name][1] * self.copies(name), rank))
        )

    @property
    def token_table_parameters(self) -> int:
        """Parameters of the token embedding."""
        return self.vocabulary * self.hidden

    @property
    def outer_parameters(self) -> int:
        """What is outside the blocks: embeddings, the last normalisation, the output layer where it has its own."""
        tables = self.token_table_parameters * (1 if self.tied else 2) + self.positions * self.hidden
        return tables + self.norm_parameters

    @property
    def parameters(self) -> int:
        """All parameters; a tied embedding counts once."""
        return self.layers * self.parameters_per_layer + self.outer_parameters

    @property
    def lookup_parameters(self) -> int:
        """Parameters that are looked up, not multiplied: positions, and the token embedding unless it is tied."""
        return (0 if self.tied else self.token_table_parameters) + self.positions * self.hidden

    @property
    def computing_parameters(self) -> int:
        """Parameters that are multiplied for each token."""
        return self.parameters - self.lookup_parameters - self.idle_parameters

    def attention_flops_per_token(self, sequence_length: int) -> float:
        """Scores and weighted sum, forward and backward: 12 layers x heads x head size x sequence.

        Two products of 2 x head size operations a head and a past token, three times (forward, two gradients). All
        tokens count as past: no discount for the causal mask, as torchtitan and PaLM (appendix B) count.
        """
        return 12.0 * self.layers * self.heads * self.head_size * sequence_length

    def flops_per_token(self, sequence_length: int) -> float:
        """Operations of one training step per token: 6 (N - N_lookup) + 12 layers x heads x head size x sequence.

        torchtitan's dense formula (torchtitan/models/utils.py, get_dense_model_nparams_and_flops): each weight is
        multiplied and added once in the forward pass and twice in the backward pass. Recomputation is not counted, so
        an MFU from it is comparable between settings of checkpointing.
        """
        return 6.0 * self.computing_parameters + self.attention_flops_per_token(sequence_length)

    def hardware_flops_per_token(self, sequence_length: int, *, recompute: float = 1.0) -> float:
        """Operations executed per token where a share ``recompute`` of the blocks' forward pass is done twice."""
        blocks = (
            2.0 * (self.layers * self.parameters_per_layer - self.idle_parameters)
            + self.attention_flops_per_token(sequence_length) / 3
        )
        return self.flops_per_token(sequence_length) + recompute * blocks

    def lora_parameters(self, rank: int, targets: tuple[str, ...] = ()) -> int:
        """Trainable parameters of LoRA adapters, rank x (inputs + outputs) a target; no targets: every linear layer."""
        linears = self._checked(targets)
        return self.layers * sum(rank * sum(linears[name]) * self.copies(name) for name in targets or linears)

    def _checked(self, targets: tuple[str, ...]) -> dict[str, tuple[int, int]]:
        """The linear layers, all ``targets`` among them."""
        linears = self.linears()
        for name in targets:
            if name not in linears:
                raise unknown_name(f"linear layer of {self.name}", name, linears)
        return linears

    def lora_flops_per_token(self, sequence_length: int, rank: int, targets: tuple[str, ...] = ()) -> float:
        """Operations per token with a frozen base: 4 N (forward, gradient of inputs), 6 N_lora, attention in full."""
        frozen = 4.0 * self.computing_parameters
        return frozen + 6.0 * self.lora_parameters(rank, targets) + self.attention_flops_per_token(sequence_length)

    def resized(self, **changes: int) -> "Transformer":
        """The same family in another size; named ``custom``. Raises UsageError where the sizes do not fit together."""
        return replace(self, **{"name": "custom", **changes})  # type: ignore[arg-type]  # sizes are int


def _gpt(name: str, layers: int, hidden: int, heads: int, *, context: int = 1024) -> Transformer:
    return Transformer(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        feedforward=4 * hidden,
        vocabulary=50257,
        gated=False,
        norm="layer",
        biases=True,
        tied=True,
        positions=context,
        context=context,
    )


def _llama(name: str, shape: tuple[int, int, int, int, int, int], *, context: int, tied: bool = False) -> Transformer:
    layers, hidden, heads, kv_heads, feedforward, vocabulary = shape
    return Transformer(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        feedforward=feedforward,
        vocabulary=vocabulary,
        tied=tied,
        context=context,
    )


# Published configurations: openai/gpt2*, Brown et al. 2020 (table 2.1), meta-llama/*, TinyLlama, mistralai/*, Qwen/*.
# `tiny` and `small` are ours: for CPUs and tests.
_PRESETS: tuple[Transformer, ...] = (
    _llama("tiny", (2, 64, 4, 2, 176, 512), context=256),
    _llama("small", (4, 256, 8, 4, 704, 4096), context=512),
    _gpt("gpt2", 12, 768, 12),
    _gpt("gpt2-medium", 24, 1024, 16),
    _gpt("gpt2-large", 36, 1280, 20),
    _gpt("gpt2-xl", 48, 1600, 25),
    _gpt("gpt3-175b", 96, 12288, 96, context=2048),
    _llama("tinyllama-1.1b", (22, 2048, 32, 4, 5632, 32000), context=2048),
    _llama("llama-2-7b", (32, 4096, 32, 32, 11008, 32000), context=4096),
    _llama("llama-2-13b", (40, 5120, 40, 40, 13824, 32000), context=4096),
    _llama("llama-2-70b", (80, 8192, 64, 8, 28672, 32000), context=4096),
    _llama("llama-3.2-1b", (16, 2048, 32, 8, 8192, 128256), context=131072, tied=True),
    _llama("llama-3.2-3b", (28, 3072, 24, 8, 8192, 128256), context=131072, tied=True),
    _llama("llama-3.1-8b", (32, 4096, 32, 8, 14336, 128256), context=131072),
    _llama("llama-3.1-70b", (80, 8192, 64, 8, 28672, 128256), context=131072),
    _llama("llama-3.1-405b", (126, 16384, 128, 8, 53248, 128256), context=131072),
    _llama("mistral-7b", (32, 4096, 32, 8, 14336, 32000), context=32768),
    replace(_llama("qwen2.5-7b", (28, 3584, 28, 4, 18944, 152064), context=131072), qkv_biases=True),
)
PRESETS: dict[str, Transformer] = {preset.name: preset for preset in _PRESETS}

# The same model under the names people type.
ALIASES: dict[str, str] = {
    "gpt": "gpt2",
    "llama-1b": "llama-3.2-1b",
    "llama-3b": "llama-3.2-3b",
    "llama-7b": "llama-2-7b",
    "llama-8b": "llama-3.1-8b",
    "llama-3-8b": "llama-3.1-8b",
    "llama-13b": "llama-2-13b",
    "llama-70b": "llama-3.1-70b",
    "llama-3-70b": "llama-3.1-70b",
    "llama-405b": "llama-3.1-405b",
    "mistral": "mistral-7b",
    "qwen-7b": "qwen2.5-7b",
}


def preset_named(name: str) -> Transformer:
    """A preset by its name or alias. Raises UsageError for another name, with those there are."""
    key = name.strip().lower()
    found = PRESETS.get(ALIASES.get(key, key))
    if found is None:
        raise unknown_name("model", name, (*PRESETS, *ALIASES))
    return found
