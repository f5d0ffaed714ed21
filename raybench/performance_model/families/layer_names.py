"""Names of linear layers that adapters are put on, as each model's code has them, in Llama's.

transformers' classes (``models/*/modeling_*.py``) call the same layer by different names, and some have one matrix
product give q, k and v, or gate and up: peft's ``target_modules`` are told those names.
"""

from collections.abc import Sequence
from types import MappingProxyType

from raybench.performance_model.transformer import Transformer

_QKV = ("q_proj", "k_proj", "v_proj")
# Of GPT-NeoX, Falcon, BLOOM and ChatGLM; GPT-2; MPT; GPT-J; Phi; Baichuan and Qwen; InternLM2; torchtune; Llama's own
_LAYERS = MappingProxyType(
    {
        **dict.fromkeys(("query_key_value", "Wqkv", "W_pack", "wqkv", "qkv_proj", "qkv", "c_attn", "linear_qkv"), _QKV),
        **dict.fromkeys(("dense", "out_proj", "output_proj", "wo", "linear_proj"), ("o_proj",)),
        **dict.fromkeys(("gate_up_proj", "gate_up"), ("gate_proj", "up_proj")),
        **dict.fromkeys(("w1",), ("gate_proj",)),
        **dict.fromkeys(("w3", "dense_h_to_4h", "c_fc", "fc1", "fc_in"), ("up_proj",)),
        **dict.fromkeys(("w2", "dense_4h_to_h", "fc2", "fc_out"), ("down_proj",)),
        "c_proj": ("o_proj", "down_proj"),  # GPT-2 calls both so
        "linear_fc1": ("gate_proj", "up_proj"),  # Megatron-LM, gated
        "linear_fc2": ("down_proj",),
        "wq": ("q_proj",),
        "wk": ("k_proj",),
        "wv": ("v_proj",),
    }
)
ALL = "all-linear"


def layers_named(
    model: Transformer, names: Sequence[str]
) -> tuple[tuple[str, ...], tuple[tuple[str, tuple[str, ...]], ...]]:
    """The layers in Llama's names, and which names stood for several: one matrix product, counted as those.

    ``all-linear``: every linear layer, no target. A name that is the model's own, or that nothing is known of, stays
    as it is: who counts the adapters refuses it.
    """
    own = {name for kind in model.kinds() for name in kind.linears()}
    if ALL in names:
        return (), ()
    found: dict[str, None] = {}
    joined = []
    for name in names:
        short = name if name in own else name.rpartition(".")[2]
        layers = (short,) if short in own else tuple(one for one in _LAYERS.get(short, ()) if one in own)
        if len(layers) > 1:
            joined.append((name, layers))
        found |= dict.fromkeys(layers or (name,))
    return tuple(found), tuple(joined)
