"""What cross entropy holds at once, in bytes a logit, as loops write it: counted on a GPU that is not there.

``LD_PRELOAD=guard.so python -m tests.performance_model.memory.counted_loss`` writes forward and backward of each
(JSON).
"""

import contextlib
import json
import os
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.performance_model.absent_gpu import Counted, pretended

_TOKENS, _VOCABULARY, _HIDDEN = 4096, 50304, 16  # so narrow that the logits are nearly all
_LOGITS = _TOKENS * _VOCABULARY
TYPES: dict[str, tuple[torch.dtype, bool]] = {
    "fp32": (torch.float32, False), "bf16": (torch.bfloat16, False), "autocast": (torch.bfloat16, True),
}  # fmt: skip


def counted(name: str, *, casts: bool, holds: bool) -> tuple[float, float]:
    """Forward and backward. ``casts``: the loss is given logits in fp32; ``holds``: a variable keeps what came out."""
    dtype, by_autocast = TYPES[name]
    stored = torch.float32 if by_autocast else dtype
    with pretended(), FakeTensorMode(allow_non_fake_inputs=True), Counted() as seen:
        empty: dict[str, Any] = {"device": "cuda", "dtype": stored, "requires_grad": True}
        table, states = torch.empty(_VOCABULARY, _HIDDEN, **empty), torch.empty(_TOKENS, _HIDDEN, **empty)
        targets, before = torch.zeros(_TOKENS, dtype=torch.long, device="cuda"), seen.now()
        with torch.autocast("cuda", dtype) if by_autocast else contextlib.nullcontext():
            logits = states @ table.t()
            loss = torch.nn.functional.cross_entropy(logits.float() if casts else logits, targets)
        forward, seen.peak = seen.peak, 0
        if not holds:
            del logits
        loss.backward()
        return (forward - before) / _LOGITS, (seen.peak - before) / _LOGITS


def main() -> None:
    """Every way, by name. It ends at once, since autograd's thread for the absent GPU would abort an orderly end."""
    ways = [(name, casts, holds) for name in TYPES for casts in (False, True) for holds in (False, True)]
    found = {
        f"{name}{' cast' if casts else ''}{' held' if holds else ''}": counted(name, casts=casts, holds=holds)
        for name, casts, holds in ways
    }
    print(json.dumps(found), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
