"""LoRA by Hugging Face's peft, on a 4-bit base by bitsandbytes: what most people train with, where it is installed.

Ours (adapters.py) needs no further library and is the same on a CPU and a GPU; these are for a figure of the very code
that a training job will run. Imported when asked for: peft brings transformers, which takes seconds.
"""

import importlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from raybench.benchmarks.base import UnsupportedError
from raybench.benchmarks.training.models.trainable import blocks_of
from raybench.benchmarks.training.options import TrainingOptions

_EXTRAS = {"peft": "peft", "bitsandbytes": "bitsandbytes"}


def adapt_by_peft(model: nn.Module, options: TrainingOptions, dtype: torch.dtype, *, quantised: bool) -> None:
    """Freeze a model and let peft put an adapter beside the linear layers of its blocks that are targets.

    The adapters' random values depend on the seed alone, so that all ranks and the reference begin alike. Raises
    UnsupportedError where a library is not installed, or a 4-bit base is asked for on a CPU.
    """
    peft = _library("peft")
    device = next(model.parameters()).device
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    if quantised:
        _quantise(model, device, dtype)
    config = peft.LoraConfig(
        r=options.lora_rank,
        lora_alpha=options.lora_alpha,
        target_modules=_targets(model, options.lora_targets),
        lora_dropout=0.0,
        bias="none",
    )
    devices = [device] if device.type == "cuda" else []  # gpu: qlora-7b-peft
    with torch.random.fork_rng(devices):
        torch.manual_seed(options.seed)
        peft.inject_adapter_in_model(config, model)


def versions_of_adapters(options: TrainingOptions, strategy: str) -> str | None:
    """Whose adapters these are, as a fact of the result; None for strategies that have none."""
    if strategy not in ("lora", "qlora"):
        return None
    if options.adapter == "own":
        return "raybench"
    names = ("peft", "bitsandbytes") if strategy == "qlora" else ("peft",)
    return ", ".join(f"{name} {_library(name).__version__}" for name in names)


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnsupportedError(
            f"--adapter peft needs {name}, which cannot be imported on this node ({error}): "
            f"pip install 'raybench[{_EXTRAS[name]}]', or take --adapter own"
        ) from error


def _linear_names(model: nn.Module) -> list[str]:
    """Full names of the linear layers of the blocks, the 4-bit ones included."""
    inside = {id(module) for block in blocks_of(model) for module in block.modules()}
    return [name for name, module in model.named_modules() if isinstance(module, nn.Linear) and id(module) in inside]


def _targets(model: nn.Module, named: Sequence[str]) -> list[str]:
    return [name for name in _linear_names(model) if name.rpartition(".")[2] in named or not named]


def _quantise(model: nn.Module, device: torch.device, dtype: torch.dtype) -> None:  # gpu: qlora-7b-peft
    """Give every linear layer of the blocks a base in NF4 with double quantisation, one layer at a time."""
    if device.type != "cuda":
        raise UnsupportedError(
            "qlora by bitsandbytes needs a CUDA GPU, and this is a CPU; take --adapter own, which runs here"
        )
    library = _library("bitsandbytes")
    for name in _linear_names(model):
        parent, _, last = name.rpartition(".")
        linear: Any = model.get_submodule(name)
        packed = library.nn.Linear4bit(
            linear.in_features,
            linear.out_features,
            bias=linear.bias is not None,
            compute_dtype=dtype,
            compress_statistics=True,
            quant_type="nf4",
            device="meta",  # its own random weights would be thrown away: minutes for 7 billion of them
        )
        packed.weight = library.nn.Params4bit(
            linear.weight.data, requires_grad=False, compress_statistics=True, quant_type="nf4"
        )
        packed.bias = linear.bias
        setattr(model.get_submodule(parent), last, packed.to(device))  # moving it there is what packs it
    marked: Any = model
    marked.is_loaded_in_4bit = True  # where peft looks
