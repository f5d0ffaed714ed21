"""Names of linear layers that adapters are put on, as each model's code has them, in Llama's.

transformers' classes (``models/*/modeling_*.py``) call the same layer by different names, and some have one matrix
product give q, k and v, or gate and up: peft's ``target_modules`` are told those names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from raybench.performance_model.models.transformer import Transformer

_QKV = ("q_proj", "k_proj", "v_proj")
_GATED = ("gate_proj", "up_proj")
# Of GPT-NeoX, Falcon, BLOOM and ChatGLM; GPT-2; MPT; GPT-J; Phi; Baichuan and Qwen; InternLM2; torchtune; OLMo's own
# code; nanotron; EXAONE 3; Llama's own; T5's, as people shorten Llama's.
_LAYERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("query_key_value", "Wqkv", "W_pack", "wqkv", "qkv_proj", "qkv", "c_attn", "linear_qkv"), _QKV),
        **dict.fromkeys(("in_proj_qkv", "att_proj"), _QKV),
        **dict.fromkeys(("dense", "out_proj", "output_proj", "wo", "linear_proj", "attn_out"), ("o_proj",)),
        **dict.fromkeys(("gate_up_proj", "gate_up", "ff_proj"), _GATED),
        **dict.fromkeys(("w1", "c_fc_0"), ("gate_proj",)),
        **dict.fromkeys(("w3", "c_fc", "fc1", "fc_in", "c_fc_1"), ("up_proj",)),
        **dict.fromkeys(("w2", "dense_4h_to_h", "fc2", "fc_out", "ff_out"), ("down_proj",)),
        "dense_h_to_4h": _GATED,  # ChatGLM's is gated, the others' not
        "c_proj": ("o_proj", "down_proj"),  # GPT-2 calls both so
        "linear_fc1": _GATED,  # Megatron-LM, gated
        "linear_fc2": ("down_proj",),
        "wq": ("q_proj",),
        "wk": ("k_proj",),
        "wv": ("v_proj",),
        **{short: (f"{short}_proj",) for short in "qkvo"},
    }
)
# Where a model's code has a name for another layer than most: Qwen of 2023 (w2 is what SiLU is of), and those whose
# attention ends in o_proj or out_proj, so that c_proj is the MLP's alone.
_OF_FAMILY: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "qwen": {"w1": ("up_proj",), "w2": ("gate_proj",)},
        "gpt_neo": {"c_proj": ("down_proj",)},
        "starcoder2": {"c_proj": ("down_proj",)},
    }
)
# Layers outside of those that are counted: embeddings, the output layer, a router.
OUTER = frozenset(
    {
        *("lm_head", "embed_out", "output_layer", "output", "score", "embed_tokens", "embed_in", "wte", "wpe", "gate"),
        *("word_embeddings", "router", "shared_expert_gate", "tok_embeddings"),
    }
)
ALL = ("all-linear", "all")  # of peft, and of LLaMA-Factory
NO_LAYER = "LoRA targets without a layer"  # of a request's basis: what is told of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Layers that get adapters, in Llama's names; of all of them empty.

    ``joined``: names that stand for several layers: one matrix product, counted as those. ``outer``: of layers outside
    the blocks, and of routers, whose adapters are not counted. ``unmatched``: of no layer of the model, as peft takes
    them where another name of the list has one.
    """

    layers: tuple[str, ...]
    joined: tuple[tuple[str, tuple[str, ...]], ...] = ()
    outer: tuple[str, ...] = ()
    unmatched: tuple[str, ...] = ()


def layers_named(model: Transformer, names: Sequence[str]) -> Targets:
    """The layers that such names mean, as peft has them (``tuners/tuners_utils.py``).

    A name that no layer has is left out, as there, unless none has one: then all stay as they are, and who counts the
    adapters refuses them. ``all-linear`` and ``all``: every linear layer, no target.
    """
    own = {name for kind in model.kinds() for name in kind.linears()}
    if set(ALL) & set(names):
        return Targets(layers=())
    meant = {**_LAYERS, **_OF_FAMILY.get(model.family, {})}
    found: dict[str, None] = {}
    joined: list[tuple[str, tuple[str, ...]]] = []
    outer: list[str] = []
    unmatched: list[str] = []
    for name in names:
        short = name if name in own else name.rpartition(".")[2]
        layers = (short,) if short in own else tuple(one for one in meant.get(short, ()) if one in own)
        if len(layers) > 1:
            joined.append((name, layers))
        if not layers:
            (outer if short in OUTER else unmatched).append(name)
        found |= dict.fromkeys(layers)
    if not found:
        return Targets(layers=tuple(names))
    return Targets(layers=tuple(found), joined=tuple(joined), outer=tuple(outer), unmatched=tuple(unmatched))
