"""What TRL's loss in chunks holds at once, forward and backward: counted on a GPU that is not there.

Each chunk of tokens is multiplied with the output layer in fp32, and is computed again in the backward pass
(trl/trainer/sft_trainer.py, ``_chunk``).
``LD_PRELOAD=guard.so python -m tests.performance_model.memory.counted_chunks`` writes bytes of each way (JSON).
"""

import contextlib
import json
import os
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import log_softmax, nll_loss
from torch.utils.checkpoint import checkpoint

from tests.performance_model.absent_gpu import Counted, pretended

CHUNK, CHUNKS = 256, 4
VOCABULARY = 32768
WIDTHS = (64, 4096)  # chunks are nearly all, and the output layer is
TYPES: dict[str, tuple[torch.dtype, bool]] = {
    "base in 16 bits, autocast": (torch.bfloat16, True), "base in fp32, autocast": (torch.float32, True),
    "bf16": (torch.bfloat16, False), "fp32": (torch.float32, False),
}  # fmt: skip


def _of_chunk(states: torch.Tensor, table: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, ...]:
    logits = states.float() @ table.float().t()
    likely = log_softmax(logits, dim=-1)
    right = (logits.argmax(dim=-1) == labels).sum()
    return nll_loss(likely, labels, reduction="sum"), right, -(likely.exp() * likely).sum()


def counted(name: str, width: int, *, trained: bool) -> tuple[float, float]:
    """Bytes, forward and backward, beside what is there before."""
    dtype, by_autocast = TYPES[name]
    with pretended(), FakeTensorMode(allow_non_fake_inputs=True), Counted() as seen:
        empty: dict[str, Any] = {"device": "cuda", "dtype": dtype}
        table = torch.empty(VOCABULARY, width, requires_grad=trained, **empty)
        kind = torch.bfloat16 if by_autocast else dtype
        states = torch.empty(CHUNK * CHUNKS, width, device="cuda", dtype=kind, requires_grad=True)
        labels = torch.zeros(CHUNK * CHUNKS, dtype=torch.long, device="cuda")
        before, seen.peak = seen.now(), 0
        with torch.autocast("cuda", torch.bfloat16) if by_autocast else contextlib.nullcontext():
            loss = torch.zeros((), device="cuda")
            for first in range(0, CHUNK * CHUNKS, CHUNK):
                rows = slice(first, first + CHUNK)
                part = checkpoint(_of_chunk, states[rows], table, labels[rows], use_reentrant=False)
                loss = loss + part[0]
        forward, seen.peak = seen.peak, 0
        loss.backward()
        return forward - before, seen.peak - before


def main() -> None:
    """Every way. It ends at once, since autograd's thread for the absent GPU would abort an orderly end."""
    ways = [(name, width, trained) for name in TYPES for width in WIDTHS for trained in (False, True)]
    found = {
        f"{name}{', trained' if trained else ''}, {width}": counted(name, width, trained=trained)
        for name, width, trained in ways
    }
    print(json.dumps(found), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
