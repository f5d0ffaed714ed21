"""Transformers by their shape: exact parameter counts and floating-point operations, without building one.

The counts are those of the models as released (tests compare them). Weights are not needed: only the shape is.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from raybench.errors import UsageError, unknown_name

# Ten times what has been published, and more: beyond it somebody mistyped.
MOST_HIDDEN = 10**6
_MOST = {
    "layers": 10_000,
    "hidden": MOST_HIDDEN,
    "heads": 10**5,
    "feedforward": 10**7,
    "vocabulary": 10**8,
    "context": 10**9,
}

OF_EXPERTS = frozenset({"gate_proj", "up_proj", "down_proj"})
SHARED_EXPERT = "shared_expert"
_KEPT_MODELS = 4096  # of which a plan asks for the same few some thousand times
# What people call a size, where that is not the field's name.
_SIZES = {"hidden": "hidden size", "kv_heads": "key and value heads", "feedforward": "intermediate size"}


# Of each layer of multi-token prediction: of the hidden state, of the embedding, and before the output layer.
NORMS_OF_PREDICTION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """A decoder-only transformer."""

    name: str
    layers: int
    hidden: int
    vocabulary: int
    context: int = 2048  # tokens of a sample that it is made for
    tied: bool = False  # the output layer is the token embedding
    positions: int = 0  # rows of a learned position table; 0: rotary positions
    head_bias: bool = False  # of the output layer

    # Attention. kv_heads below heads: grouped-query attention.
    heads: int
    kv_heads: int = 0  # 0: as many as heads
    head_width: int = 0  # 0: hidden / heads
    head_norms: bool = False  # q and k are normalised
    head_norm_weights: Literal["head", "projection", "none"] = "head"  # for one head's width, for all heads', or none
    # DeepSeek's MLA: keys and values come of a latent vector of key_value_rank, queries of one of query_rank (0: of the
    # hidden state). rotary_width of a head's width is rotated, with keys that all heads share; values have value_width.
    query_rank: int = 0
    key_value_rank: int = 0
    rotary_width: int = 0
    value_width: int = 0

    # MLP.
    feedforward: int  # inner width
    gated: bool = True  # SwiGLU: three matrices, not two
    formula_gelu: bool = False  # GELU as eight operations
    clamps_inner: bool = False  # gpt-oss's gate and its other half, both clamped, beside biases
    parallel: bool = False  # attention and the MLP read one norm

    # Experts: so many MLPs in a layer (0: one that all tokens pass), of which experts_per_token compute a token; beside
    # them an MLP of shared_feedforward for all tokens, weighed for each with shared_gate. dense_layers, the first ones
    # or spread evenly between the others (dense_between), have an MLP of dense_feedforward and no experts.
    experts: int = 0
    experts_per_token: float = 0
    shared_feedforward: int = 0
    shared_gate: bool = False
    router_biases: bool = False  # one for each expert, in its choice
    dense_layers: int = 0
    dense_feedforward: int = 0
    dense_between: bool = False

    # Multi-token prediction (DeepSeek-V3, section 2.2): the last ``predicting`` of the layers each have before them a
    # product that joins the hidden state with the next token's embedding, three norms, and the output layer once more.
    predicting: int = 0
    predicting_in_config: int = 0  # as its config.json has them, which most programs leave out

    # Norms and the rest of a layer.
    norm: Literal["rms", "layer", "scale", "plain"] = "rms"  # scale: LayerNorm without its shift; plain: no parameters
    norms_per_layer: int = 2
    embedding_norm: bool = False  # one more, of the token embeddings
    biases: bool = False  # in every linear layer
    qkv_biases: bool = False  # in those of q, k and v only
    other_parameters: int = 0  # of a layer, neither of a linear layer nor of a norm, such as attention sinks

    # In training. Capped by tanh, which no kernel of PyTorch fuses; drops: elements that attention and the MLP give.
    caps_scores: bool = False
    caps_logits: bool = False
    drops: bool = False
    family: str = ""  # model_type of its config.json, by which transformers has its code; empty: not known

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
        self._check_widths()

    def _check_widths(self) -> None:
        if not 0 <= self.dense_layers <= self.layers or (self.dense_layers and not self.dense_feedforward):
            raise UsageError(f"{self.dense_layers} of {self.layers} layers cannot be without experts")
        if max(self.shared_feedforward, self.dense_feedforward) > _MOST["feedforward"]:
            raise UsageError(f"a feed-forward layer is wider than {_MOST['feedforward']}, which no transformer has")
        if self.key_value_rank and not (0 < self.rotary_width < self.head_width and self.value_width):
            raise UsageError(f"a head of {self.head_width}, {self.rotary_width} of it turned, has no latent attention")
        if self.hidden % self.heads and not self.head_width:
            raise UsageError(f"hidden size {self.hidden} is not a multiple of {self.heads} heads")
        if self.heads % (self.kv_heads or self.heads):
            raise UsageError(f"{self.heads} heads cannot share {self.kv_heads} key and value heads evenly")

    @property
    def head_size(self) -> int:
        """Width of one head."""
        return self.head_width or self.hidden // self.heads

    @property
    def value_size(self) -> int:
        """Width of one head's values."""
        return self.value_width or self.head_size

    @property
    def key_value_heads(self) -> int:
        """Heads of keys and of values."""
        return self.kv_heads or self.heads

    def linears(self) -> dict[str, tuple[int, int]]:
        """(inputs, outputs) of each linear layer of one block, by the name Llama's code gives it."""
        for_all = self._mlp(self.shared_feedforward, f"{SHARED_EXPERT}.") if self.shared_feedforward else {}
        attention = self._latent() if self.key_value_rank else self._attention()
        return attention | self._mlp(self.feedforward) | for_all

    def _attention(self) -> dict[str, tuple[int, int]]:
        attention, shared = self.heads * self.head_size, self.key_value_heads * self.head_size
        return {
            "q_proj": (self.hidden, attention),
            "k_proj": (self.hidden, shared),
            "v_proj": (self.hidden, shared),
            "o_proj": (attention, self.hidden),
        }

    def _latent(self) -> dict[str, tuple[int, int]]:
        """Of multi-head latent attention (DeepSeek-V2, section 2.1), by the names of DeepSeek's code."""
        queries, turned = self.heads * self.head_size, self.rotary_width
        of_queries = {"q_a_proj": (self.hidden, self.query_rank), "q_b_proj": (self.query_rank, queries)}
        return (of_queries if self.query_rank else {"q_proj": (self.hidden, queries)}) | {
            "kv_a_proj_with_mqa": (self.hidden, self.key_value_rank + turned),
            "kv_b_proj": (self.key_value_rank, self.heads * (self.head_size - turned + self.value_size)),
            "o_proj": (self.heads * self.value_size, self.hidden),
        }

    def _mlp(self, width: int, prefix: str = "") -> dict[str, tuple[int, int]]:
        layers = {f"{prefix}up_proj": (self.hidden, width), f"{prefix}down_proj": (width, self.hidden)}
        return layers | ({f"{prefix}gate_proj": (self.hidden, width)} if self.gated else {})

    def kinds(self) -> tuple["Transformer", ...]:
        """Its layers by kind, each as a transformer whose layers are all alike, in the order of the forward pass."""
        return _kinds(self) if self.dense_layers else (self,)

    @property
    def block_parameters(self) -> int:
        """Of all blocks."""
        return _block_parameters(self)

    @property
    def linear_parameters(self) -> int:
        """Weights of the linear layers of all blocks."""
        return sum(kind.layers * kind.linear_parameters_per_layer for kind in self.kinds())

    @property
    def linear_parameters_per_layer(self) -> int:
        """Weights of one block's linear layers, without biases: what 4-bit quantisation stores in 4 bits."""
        return sum(inputs * outputs * self.copies(name) for name, (inputs, outputs) in self.linears().items())

    @property
    def expert_weights_per_layer(self) -> int:
        """Those of them that are of experts."""
        shapes = self.expert_shapes()
        return sum(outputs * inputs for outputs, inputs in shapes)

    def copies(self, linear: str) -> int:
        """How many of a linear layer a block has: one, or one for each expert."""
        return max(1, self.experts) if linear in OF_EXPERTS else 1

    @property
    def idle_parameters(self) -> int:
        """Parameters that a token does not pass: of the experts that are not chosen for it."""
        return int((self.layers - self.dense_layers) * max(0, self.experts - self.experts_per_token) * self.each_expert)

    @property
    def each_expert(self) -> int:
        """Parameters of one expert."""
        linears = self.linears()
        return sum((linears[name][0] + self.biases) * linears[name][1] for name in OF_EXPERTS & set(linears))

    @property
    def norm_parameters(self) -> int:
        """Parameters of one normalisation: a scale, with LayerNorm also a shift, or none."""
        return self.hidden * len(self._norm_shapes())

    @property
    def _head_norm_shapes(self) -> tuple[tuple[int, ...], ...]:
        if not self.head_norms or self.head_norm_weights == "none":
            return ()
        heads, shared = (1, 1) if self.head_norm_weights == "head" else (self.heads, self.key_value_heads)
        return ((heads * self.head_size,), (shared * self.head_size,))

    @property
    def parameters_per_layer(self) -> int:
        """All parameters of one block: linear layers, biases, normalisations, the router."""
        return _layer_parameters(self)

    def block_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of one block's parameters as PyTorch holds them: (outputs, inputs) of a linear layer, its bias."""
        shapes: list[tuple[int, ...]] = []
        for name, (inputs, outputs) in self.linears().items():
            biased = self.biases or (self.qkv_biases and name in ("q_proj", "k_proj", "v_proj"))
            shapes += [(outputs * self.copies(name), inputs), *([(outputs * self.copies(name),)] if biased else [])]
        shapes += [(self.experts, self.hidden)] if self.experts else []
        shapes += [(self.experts,)] if self.router_biases else []
        shapes += [(1, self.hidden)] if self.shared_gate else []
        shapes += self._head_norm_shapes
        shapes += [(one,) for one in (self.query_rank, self.key_value_rank, self.other_parameters) if one]
        return (*shapes, *self._norm_shapes() * self.norms_per_layer)

    def expert_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Those of them that are of experts."""
        linears = self.linears()
        names = [name for name in linears if name in OF_EXPERTS] if self.experts else []
        return tuple((linears[name][1] * self.copies(name), linears[name][0]) for name in names)

    def outer_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the parameters outside the blocks."""
        tables = [(self.vocabulary, self.hidden)] * (1 if self.tied else 2)
        others = [(self.positions, self.hidden)] if self.positions else []
        bias = [(self.vocabulary,)] if self.head_bias else []
        joins = [(self.hidden, 2 * self.hidden)] * self.predicting
        norms = 1 + self.embedding_norm + NORMS_OF_PREDICTION * self.predicting
        return (*tables, *others, *bias, *joins, *self._norm_shapes() * norms)

    def _norm_shapes(self) -> tuple[tuple[int, ...], ...]:
        return ((self.hidden,),) * {"rms": 1, "layer": 2, "scale": 1, "plain": 0}[self.norm]

    def adapter_shapes(self, rank: int, targets: tuple[str, ...] = ()) -> tuple[tuple[int, ...], ...]:
        """Shapes of one block's LoRA adapters: (rank, inputs) and (outputs, rank) a target that the block has."""
        linears = self.linears()
        return tuple(
            shape
            for name in (one for one in targets or linears if one in linears)
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
        norms = self.norm_parameters * (1 + self.embedding_norm + NORMS_OF_PREDICTION * self.predicting)
        joins = 2 * self.hidden**2 * self.predicting
        return tables + norms + joins + (self.vocabulary if self.head_bias else 0)

    @property
    def trained_parameters(self) -> int:
        """All, without adapters."""
        return self.parameters

    @property
    def output_weights(self) -> int:
        """Weights of the output layer, tied or not."""
        return self.hidden * self.vocabulary

    # Of a whole model known by its shape; of its parts and of counted ones they are fields.

    @property
    def scores(self) -> bool:
        """Whether it has the output layer."""
        return True

    @property
    def expert_ranks(self) -> int:
        """Ranks that a layer's experts are spread over."""
        return 1

    @property
    def buffer_bytes(self) -> int:
        """What each rank holds beside parameters, sharded or not."""
        return 0

    @property
    def passing_bytes(self) -> float:
        """Of a sample, by how much its backward pass has more than what autograd keeps: known by its shape instead."""
        return 0.0

    @property
    def parameters(self) -> int:
        """All parameters; a tied embedding counts once."""
        return _parameters(self)

    @property
    def lookup_parameters(self) -> int:
        """Parameters that are looked up, not multiplied: positions, and the token embedding unless it is tied."""
        return (0 if self.tied else self.token_table_parameters) + self.positions * self.hidden

    @property
    def computing_parameters(self) -> int:
        """Parameters that are multiplied for each token; the output layer once for each prediction."""
        again = self.predicting * self.token_table_parameters
        return self.parameters - self.lookup_parameters - self.idle_parameters + again

    def attention_flops_per_token(self, sequence_length: int) -> float:
        """Scores and weighted sum, forward and backward: 12 layers x heads x head size x sequence.

        Products of 2 x head size and 2 x value size operations a head and past token, thrice (forward, two gradients).
        All tokens count as past: no discount for the causal mask, as torchtitan and PaLM (appendix B) count.
        """
        return 6.0 * self.layers * self.heads * (self.head_size + self.value_size) * sequence_length

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
            2.0 * (self.block_parameters - self.idle_parameters) + self.attention_flops_per_token(sequence_length) / 3
        )
        return self.flops_per_token(sequence_length) + recompute * blocks

    def lora_parameters(self, rank: int, targets: tuple[str, ...] = ()) -> int:
        """Trainable parameters of LoRA adapters, rank x (inputs + outputs) a target; no targets: every linear layer."""
        self._check(targets)
        return sum(
            kind.layers * rank * sum(size) * kind.copies(name)
            for kind in self.kinds()
            for name, size in kind.linears().items()
            if name in targets or not targets
        )

    def _check(self, targets: tuple[str, ...]) -> None:
        """Raises UsageError for a linear layer that no block has."""
        linears = {name: size for kind in self.kinds() for name, size in kind.linears().items()}
        for name in targets:
            if name not in linears:
                raise unknown_name(f"linear layer of {self.name} (--lora-targets)", name, linears)

    def lora_flops_per_token(self, sequence_length: int, rank: int, targets: tuple[str, ...] = ()) -> float:
        """Operations per token with a frozen base: 4 N (forward, gradient of inputs), 6 N_lora, attention in full."""
        frozen = 4.0 * self.computing_parameters
        return frozen + 6.0 * self.lora_parameters(rank, targets) + self.attention_flops_per_token(sequence_length)

    def with_prediction(self, layers: int) -> "Transformer":
        """With so many layers of multi-token prediction beside its own, each a block like its last ones."""
        named = f"{self.name} with {layers} MTP layer{'' if layers == 1 else 's'}"
        return replace(self, name=named, layers=self.layers + layers, predicting=layers)

    def resized(self, **changes: int) -> "Transformer":
        """The same family in another size, named so: ``gpt2 with vocabulary 50,304``.

        Raises UsageError where the sizes do not fit together.
        """
        own = ", ".join(f"{_SIZES.get(field, field)} {size:,}" for field, size in changes.items())
        return replace(self, **{"name": f"{self.name} with {own}", **changes})  # type: ignore[arg-type]  # int


@lru_cache(maxsize=_KEPT_MODELS)
def _layer_parameters(model: Transformer) -> int:
    linears = model.linears()
    biased = linears if model.biases else ("q_proj", "k_proj", "v_proj") if model.qkv_biases else ()
    heads = sum(shape[0] for shape in model._head_norm_shapes) + model.query_rank + model.key_value_rank
    router = (model.experts + model.shared_gate) * model.hidden + model.router_biases * model.experts
    rest = sum(linears[name][1] * model.copies(name) for name in biased) + router + heads + model.other_parameters
    return model.linear_parameters_per_layer + rest + model.norms_per_layer * model.norm_parameters


@lru_cache(maxsize=_KEPT_MODELS)
def _block_parameters(model: Transformer) -> int:
    return sum(kind.layers * kind.parameters_per_layer for kind in model.kinds())


@lru_cache(maxsize=_KEPT_MODELS)
def _parameters(model: Transformer) -> int:
    return model.block_parameters + model.outer_parameters


@lru_cache(maxsize=_KEPT_MODELS)
def _kinds(model: Transformer) -> tuple[Transformer, ...]:
    dense = replace(
        model,
        layers=model.dense_layers,
        feedforward=model.dense_feedforward,
        dense_layers=0,
        experts=0,
        experts_per_token=0,
        shared_feedforward=0,
        shared_gate=False,
        router_biases=False,
    )
    if model.dense_layers == model.layers:
        return (dense,)
    return dense, replace(model, dense_layers=0, layers=model.layers - model.dense_layers)
