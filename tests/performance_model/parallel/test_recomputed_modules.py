"""What Megatron-LM's modules that are computed again leave of a block: counted of autograd, and in operations."""

from dataclasses import replace
from typing import Any

import pytest

from raybench.errors import UsageError
from raybench.performance_model.layout import Layout
from raybench.performance_model.memory.activations import block_activation_bytes_per_token
from raybench.performance_model.memory.rank import estimate_memory
from raybench.performance_model.memory.recomputed_modules import check_modules, kept_bytes_per_token, modules_of
from raybench.performance_model.models.config import is_config, model_of_config
from raybench.performance_model.models.presets import preset_named
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.parallel.traffic import cut_traffic
from raybench.performance_model.setup.training_setup import RECOMPUTED_MODULES, RecomputedModule, TrainingSetup
from raybench.performance_model.step.work import attention_again, products_again

torch = pytest.importorskip("torch")
training = pytest.importorskip("raybench.benchmarks.training.models.transformer")
PLAIN = pytest.importorskip("raybench.benchmarks.training.models.weight_config").PLAIN
BATCH, LENGTH, WIDTH = 2, 96, 256
GATED = Transformer(name="gated", layers=1, hidden=WIDTH, heads=8, feedforward=704, vocabulary=64, norm="layer")
GELU = replace(GATED, feedforward=1024, gated=False, biases=True, positions=128)
SETUP = TrainingSetup(batch_size=BATCH, sequence_length=LENGTH, parameter_bytes=2)
DEEPSEEK = model_of_config("deepseek-v3")
MOE_KIND = DEEPSEEK.kinds()[1]
FUSED = replace(SETUP, kernels="fused", keeps_least=True)


def told(*modules: RecomputedModule, of: TrainingSetup = SETUP) -> TrainingSetup:
    return replace(of, recompute_modules=modules)


def saved_bytes(shape: Transformer, again: str, discarded: tuple[str, ...] = ()) -> int:
    """Of a block with one module computed again, and the outputs of others left out, as who discards them does."""
    block = training.Block(shape, PLAIN).to(torch.bfloat16)
    own = {parameter.untyped_storage().data_ptr() for parameter in block.parameters()}
    for name, module in block.named_modules():
        if name in discarded:
            module.register_forward_hook(lambda _module, _inputs, output: own.add(output.untyped_storage().data_ptr()))
    if again:
        inner = block.get_submodule(again)
        forward = inner.forward
        inner.forward = lambda hidden: torch.utils.checkpoint.checkpoint(forward, hidden, use_reentrant=True)
    kept: dict[int, int] = {}

    def pack(tensor):
        if tensor.untyped_storage().data_ptr() not in own:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    hidden = torch.randn(BATCH, LENGTH, WIDTH, dtype=torch.bfloat16, requires_grad=True)
    angles = training._angles(torch.arange(LENGTH), shape.head_size // 2, PLAIN)
    flash = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION)
    with flash, torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = block(hidden, angles)
    assert output.requires_grad
    return sum(kept.values())


@pytest.mark.parametrize("shape", [GATED, GELU], ids=["gated", "gelu"])
@pytest.mark.parametrize("module", ["mlp", "layernorm"])
def test_a_block_keeps_what_autograd_does_beside_the_module(shape: Transformer, module: RecomputedModule) -> None:
    norms = ("input_layernorm", "post_attention_layernorm") if module == "layernorm" else ()
    counted = saved_bytes(shape, "mlp" if module == "mlp" else "", norms)
    assert counted < 0.95 * saved_bytes(shape, "")
    assert kept_bytes_per_token(shape, told(module)) * SETUP.tokens == pytest.approx(counted, rel=0.03)


def test_each_module_drops_its_own() -> None:
    """Elements for each token of DeepSeek-V3's layers with experts, by Transformer Engine."""
    whole, hidden, inner = block_activation_bytes_per_token(MOE_KIND, FUSED), 7168, 2048
    dropped = {name: (whole - kept_bytes_per_token(MOE_KIND, told(name, of=FUSED))) / 2 for name in RECOMPUTED_MODULES}
    assert dropped == {
        "core_attn": 2 * 128,  # a sum a head
        "layernorm": 2 * hidden,  # before latent attention and before experts
        "mla_up_proj": 128 * (192 + 192 + 128 + 128),  # q, keys, what the latent vector is unfolded to
        "mlp": 0,
        "moe": 8 * (3 * inner + hidden) + 3 * inner,
        "moe_act": 8 * inner,
        "shared_experts": 3 * inner,
    }


def test_stored_scores_go_with_core_attention_and_a_fused_norm_with_the_mlp_alone() -> None:
    stored = replace(FUSED, flash_attention=False)
    scores = GATED.heads * LENGTH * 2
    whole = block_activation_bytes_per_token(GATED, stored)
    assert whole - kept_bytes_per_token(GATED, told("core_attn", of=stored)) == scores
    assert kept_bytes_per_token(GATED, told("layernorm", of=stored)) == whole
    mlp = whole - kept_bytes_per_token(GATED, told("mlp", of=stored))
    assert mlp == 3 * 2 * 704 + 2 * WIDTH + 8  # the norm's output and both sums go too, its input is the stream


def test_what_is_computed_again_is_multiplied_again_and_sent_again() -> None:
    linears = 4 * WIDTH * WIDTH
    assert products_again(GATED, told("mlp")) == pytest.approx(3 * 704 * WIDTH / (linears + 3 * 704 * WIDTH), rel=0.01)
    assert products_again(GATED, told("layernorm", "core_attn")) == 0
    assert (attention_again(told("mlp")), attention_again(told("mlp", "core_attn"))) == (0, 1)
    up = 128 * 192 * 1536 + 128 * 256 * 512
    passed = DEEPSEEK.block_parameters - DEEPSEEK.idle_parameters
    assert products_again(DEEPSEEK, told("mla_up_proj")) == pytest.approx(61 * up / passed)
    layout = Layout(world_size=64, ranks_per_node=8, expert=32)
    sent = {
        name: sum(one.count for one in cut_traffic(DEEPSEEK, told(name), layout).messages if one.phase == "backward")
        for name in ("moe_act", "moe")
    }
    assert sent["moe"] == 2 * sent["moe_act"]


def test_memory_is_between_that_of_nothing_and_of_all_computed_again() -> None:
    layout = Layout(world_size=64, ranks_per_node=8, pipeline=8, expert=8)
    long = replace(SETUP, sequence_length=8192)
    several = told("moe_act", "layernorm", "mla_up_proj", of=long)
    setups = (long, told("moe_act", of=long), several, replace(long, checkpointing=True))
    peaks = [estimate_memory(DEEPSEEK, setup, layout).allocated for setup in setups]
    assert peaks == sorted(peaks, reverse=True)
    assert len(set(peaks)) == 4


def test_modules_are_named_as_megatron_names_them() -> None:
    assert modules_of("moe_act, layernorm") == modules_of("moe_act layernorm") == ("moe_act", "layernorm")
    with pytest.raises(UsageError, match="did you mean 'layernorm'"):
        modules_of("layernorms")
    with pytest.raises(UsageError, match="has no name"):
        modules_of(" ,")
    with pytest.raises(UsageError, match="has no latent attention"):
        check_modules(GATED, told("mla_up_proj"))
    with pytest.raises(UsageError, match="give one of them"):
        replace(told("mlp"), checkpointing=True)
    check_modules(DEEPSEEK, told(*RECOMPUTED_MODULES))


@pytest.mark.parametrize("compiled", [None, False, True])
@pytest.mark.parametrize("kernels", ["plain", "fused"])
@pytest.mark.parametrize("model", ["phi-2", "gpt2", "llama-2-7b", "gemma-2-9b", "mixtral-8x7b"])
def test_what_is_left_of_a_block_is_never_less_than_its_input(model: str, kernels: Any, compiled: bool | None) -> None:
    """Compiled, phi-2's block kept -3.5 GiB: of its MLP more was taken off than a compiler leaves."""
    shape = model_of_config(model) if is_config(model) else preset_named(model)
    modules = ("core_attn", "layernorm", "moe" if shape.experts else "mlp")
    for lora in ({}, {"lora_rank": 4, "lora_targets": ("q_proj", "v_proj")}):
        setup = replace(SETUP, kernels=kernels, compiled=compiled, **lora)
        for module in modules:
            kept = kept_bytes_per_token(shape, replace(setup, recompute_modules=(module,)))
            assert 2 * shape.hidden < kept <= block_activation_bytes_per_token(shape, setup)
