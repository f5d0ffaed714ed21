"""``python -m tests.gpu.trainings > FILE``: the allocator's peak, and seconds of five steps, of trainings on one GPU.

A JSON line each, in this process; of FSDP one rank of ``shards``, whose collectives move nothing. All take 40 s on an
H200. ``h200.jsonl`` is from a machine with one NVIDIA H200, driver 580.159.04, torch 2.11.0+cu130, 2026-11-27.
"""

import gc
import json
import sys
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from raybench.benchmarks.memory.trial import Order, _Training
from raybench.benchmarks.training.options import TrainingOptions

_STEPS = 5
_ALL_MEMORY = 10**12


def trainings() -> Iterator[dict[str, Any]]:
    """Strategy, shards, and the options of ``raybench train`` that are not its own."""
    again = {"checkpoint_activations": True}
    for strategy, model, layers, batch, length, options in (
        ("lora", "llama-1b", 4, 1, 2048, {}),
        ("single", "llama-1b", 4, 1, 2048, {"optimizer": "sgd"}),
        ("fsdp", "llama-1b", 4, 1, 2048, {}),
        ("lora", "llama-1b", 4, 4, 2048, again),
        ("qlora", "mistral-7b", 8, 4, 2048, {}),
        ("qlora", "mistral-7b", 8, 4, 2048, again),
        ("lora", "llama-2-7b", 8, 4, 2048, {}),
        ("fsdp", "llama-2-7b", 8, 2, 2048, {}),
        ("fsdp", "llama-2-7b", 8, 2, 2048, again),
        ("single", "gpt2", None, 32, 1024, {}),
        ("single", "gpt2-xl", None, 4, 1024, again),
        ("single", "tinyllama-1.1b", None, 4, 2048, {}),
        ("single", "gpt2", None, 8, 1024, {"dtype": "float32"}),
        ("single", "llama-3.1-8b", 8, 1, 8192, again),
        ("lora", "llama-3.1-8b", None, 2, 2048, {}),
        ("qlora", "mistral-7b", None, 4, 1024, {}),
    ):
        sizes = {"model": model, "batch_size": batch, "sequence_length": length} | (
            {"layers": layers} if layers else {}
        )
        yield {"strategy": strategy, "shards": 8 if strategy == "fsdp" else 1, **sizes, **options}


def measured(training: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Bytes at the peak of a step and of what stays, and seconds of steps by events on the device."""
    options = {name: value for name, value in training.items() if name not in ("strategy", "shards")}
    wanted = TrainingOptions(**{"dtype": "bfloat16", "overlap_steps": 0, **options})
    order = Order(
        device=str(device),
        strategy=training["strategy"],
        training=wanted,
        limit_bytes=_ALL_MEMORY,
        shards=training["shards"],
    )
    made = _Training(order, device)
    _step(made)
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    _step(made)
    torch.cuda.synchronize(device)
    peak, reserved = torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device)
    seconds = [_seconds(made) for _ in range(_STEPS)]
    return {"peak": peak, "reserved": reserved, **made.sizes(), "step_seconds": seconds}


def _step(made: _Training) -> None:
    made.optimizer.zero_grad(set_to_none=True)
    made.loss().backward()
    made.update()


def _seconds(made: _Training) -> float:
    event: Any = torch.cuda.Event
    begin, end = event(enable_timing=True), event(enable_timing=True)
    begin.record()
    _step(made)
    end.record()
    torch.cuda.synchronize()
    return round(begin.elapsed_time(end) / 1e3, 5)


def main() -> int:
    """Returns 0, or 2 where there is no GPU."""
    if not torch.cuda.is_available():
        sys.stderr.write("there is no GPU here\n")
        return 2
    device = torch.device("cuda:0")
    torch.cuda.set_device(device)
    for training in trainings():
        torch.cuda.empty_cache()
        print(json.dumps(training | measured(training, device)), flush=True)
        if dist.is_initialized():  # of FSDP
            dist.destroy_process_group()
        gc.collect()
    return 0


if __name__ == "__main__":
    sys.exit(main())
