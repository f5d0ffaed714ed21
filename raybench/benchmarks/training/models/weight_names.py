"""Names of tensors in a folder of weights, and the parameters of raybench's models that they are, or are parts of.

Llama's names are the models' own. GPT-2 has one matrix for queries, keys and values, and keeps matrices as (inputs,
outputs). No torch: the driver looks at headers by the same table.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

Shape = tuple[int, ...]
_GPT_LAYER = re.compile(r"h\.(\d+)\.(.+)\.(weight|bias)")
_GPT_MODULES = {  # by GPT-2's name: ours, more than one where they are stacked
    "ln_1": ("input_layernorm",),
    "ln_2": ("post_attention_layernorm",),
    "attn.c_attn": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attn.c_proj": ("self_attn.o_proj",),
    "mlp.c_fc": ("mlp.up_proj",),
    "mlp.c_proj": ("mlp.down_proj",),
}
_GPT_OUTER = {
    "wte.weight": "model.embed_tokens.weight",
    "wpe.weight": "model.embed_positions.weight",
    "ln_f.weight": "model.norm.weight",
    "ln_f.bias": "model.norm.bias",
}
_INSIDE = ("layers.", "embed_tokens.", "norm.")  # of a model that was saved without its output layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A parameter in a stored tensor: the ``part`` of ``parts`` equal ones of its outputs; ``turned``: transposed."""

    name: str
    part: int = 0
    parts: int = 1
    turned: bool = False

    def shape(self, stored: Shape) -> Shape:
        """Its shape, of that of the stored tensor; the stored one where it cannot be divided so."""
        turned = stored[::-1] if self.turned else stored
        return turned if not turned or turned[0] % self.parts else (turned[0] // self.parts, *turned[1:])


def pieces_of(name: str) -> Iterator[Piece]:
    """The parameters that a stored tensor of that name may be."""
    bare = name.removeprefix("transformer.")
    layer = _GPT_LAYER.fullmatch(bare)
    if bare in _GPT_OUTER:
        yield Piece(name=_GPT_OUTER[bare])
    elif layer and layer[2] in _GPT_MODULES:
        modules = _GPT_MODULES[layer[2]]
        turned = layer[3] == "weight" and not layer[2].startswith("ln")
        for part, module in enumerate(modules):
            ours = f"model.layers.{layer[1]}.{module}.{layer[3]}"
            yield Piece(name=ours, part=part, parts=len(modules), turned=turned)
    else:
        yield Piece(name=f"model.{name}" if name.startswith(_INSIDE) else name)
