"""The activations of a block of raybench's transformer, as autograd keeps them: unique storages saved for backward.

Normalisations are LayerNorm here: RMSNorm is one kernel that keeps its input on a GPU only; on a CPU it is several
operations, each with what it keeps.
"""

import contextlib
import weakref
from dataclasses import replace

import pytest

from raybench.performance_model.layout import Layout
from raybench.performance_model.memory.activations import (
    block_activation_bytes_per_token,
    feedforward_bytes_per_token,
    passing_bytes_per_token,
    selective_bytes_per_token,
)
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.parallel.part import part_of
from raybench.performance_model.parallel.traffic import cut_traffic
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.performance_model.step.work import products_again

torch = pytest.importorskip("torch")
training = pytest.importorskip("raybench.benchmarks.training.models.transformer")
PLAIN = pytest.importorskip("raybench.benchmarks.training.models.weight_config").PLAIN
BATCH, LENGTH, WIDTH = 2, 96, 256

GATED = Transformer(name="gated", layers=1, hidden=WIDTH, heads=8, feedforward=704, vocabulary=64, norm="layer")
SHAPES = {
    "gated": GATED,
    "grouped": replace(GATED, kv_heads=2),
    "gelu": replace(GATED, feedforward=1024, gated=False, biases=True, positions=128),
}


def saved_bytes(shape: Transformer, dtype: "torch.dtype", context: contextlib.AbstractContextManager[None]) -> int:
    """Bytes of the distinct storages that the block saves: neither its parameters nor what autocast makes of them."""
    block = training.Block(shape, PLAIN).to(dtype)
    own = {parameter.untyped_storage().data_ptr() for parameter in block.parameters()}
    weights = {shape for parameter in block.parameters() for shape in (parameter.shape, parameter.t().shape)}
    kept: dict[int, int] = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own and tensor.shape not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    hidden = torch.randn(BATCH, LENGTH, WIDTH, dtype=dtype, requires_grad=True)
    angles = training._angles(torch.arange(LENGTH), shape.head_size // 2, PLAIN)
    flash = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION)
    with context, flash, torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = block(hidden, angles)
    assert output.requires_grad
    return sum(kept.values())


@pytest.mark.parametrize("precision", ["bf16", "autocast"])
@pytest.mark.parametrize("name", SHAPES)
def test_a_blocks_saved_bytes_are_those_of_the_formula(name: str, precision: str) -> None:
    shape, is_cast = SHAPES[name], precision == "autocast"
    context = torch.autocast("cpu", torch.bfloat16) if is_cast else contextlib.nullcontext()
    parameter_bytes = 4 if is_cast else 2
    setup = TrainingSetup(batch_size=BATCH, sequence_length=LENGTH, parameter_bytes=parameter_bytes, compute_bytes=2)
    expected = block_activation_bytes_per_token(shape, setup) * setup.tokens
    assert saved_bytes(shape, torch.float32 if is_cast else torch.bfloat16, context) == pytest.approx(
        expected, rel=0.03
    )


class NarrowSwiGLU(torch.autograd.Function):
    """SwiGLU of gate and up side by side, which it keeps in 8 bits, or as they are."""

    @staticmethod
    def forward(ctx, joined, is_narrow):
        ctx.save_for_backward(joined.to(torch.float8_e4m3fn) if is_narrow else joined)
        gate, up = joined.chunk(2, dim=-1)
        return torch.nn.functional.silu(gate) * up

    @staticmethod
    def backward(ctx, passed):
        gate, up = (half.detach().requires_grad_() for half in ctx.saved_tensors[0].to(passed.dtype).chunk(2, dim=-1))
        with torch.enable_grad():
            again = torch.nn.functional.silu(gate) * up
        return torch.cat(torch.autograd.grad(again, (gate, up), passed), dim=-1), None


@pytest.mark.parametrize("is_narrow", [False, True])
def test_a_swiglu_that_keeps_its_input_in_8_bits_saves_half_of_it(is_narrow: bool) -> None:
    """Megatron-LM's activation_func_fp8_input_store; the MLP's own input is not part of what is compared."""
    joined = torch.nn.Linear(WIDTH, 2 * GATED.feedforward, bias=False, dtype=torch.bfloat16)
    down = torch.nn.Linear(GATED.feedforward, WIDTH, bias=False, dtype=torch.bfloat16)
    hidden = torch.randn(BATCH * LENGTH, WIDTH, dtype=torch.bfloat16, requires_grad=True)
    own = {one.untyped_storage().data_ptr() for one in (joined.weight, down.weight, hidden)}
    kept: dict[int, int] = {}

    def pack(tensor):
        if tensor.untyped_storage().data_ptr() not in own:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = down(NarrowSwiGLU.apply(joined(hidden), is_narrow))
    output.sum().backward()
    setup = TrainingSetup(batch_size=BATCH, sequence_length=LENGTH, parameter_bytes=2, kernels="fused",
                          keeps_least=True, has_8bit_inner=is_narrow)  # fmt: skip
    assert sum(kept.values()) == feedforward_bytes_per_token(GATED, setup) * setup.tokens


class Adapted(torch.nn.Module):
    """A frozen linear layer with an adapter in fp32, as peft computes it where nothing casts for it."""

    def __init__(self, base: "torch.nn.Linear") -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = torch.nn.Linear(base.in_features, 4, bias=False)
        self.up = torch.nn.Linear(4, base.out_features, bias=False)

    def forward(self, hidden: "torch.Tensor") -> "torch.Tensor":
        result = self.base(hidden)
        return result + self.up(self.down(hidden.float())).to(result.dtype)


@pytest.mark.parametrize("targets", [(), ("q_proj", "v_proj", "down_proj")])
def test_adapters_in_fp32_that_nothing_casts_for_keep_their_inputs_in_fp32(targets: tuple[str, ...]) -> None:
    block = training.Block(GATED, PLAIN).to(torch.bfloat16).requires_grad_(False)
    for name, module in list(block.named_modules()):
        parent, _, own = name.rpartition(".")
        if isinstance(module, torch.nn.Linear) and (own in targets or not targets):
            setattr(block.get_submodule(parent), own, Adapted(module))
    own = {parameter.untyped_storage().data_ptr() for parameter in block.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor):
        if tensor.untyped_storage().data_ptr() not in own:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    hidden = torch.randn(BATCH, LENGTH, WIDTH, dtype=torch.bfloat16, requires_grad=True)
    flash = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION)
    with flash, torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        block(hidden, training._angles(torch.arange(LENGTH), GATED.head_size // 2, PLAIN))
    told = TrainingSetup(batch_size=BATCH, sequence_length=LENGTH, lora_rank=4, lora_targets=targets, autocast=False)
    counted = block_activation_bytes_per_token(GATED, told) * told.tokens
    assert counted == pytest.approx(sum(kept.values()), rel=0.03)
    assert block_activation_bytes_per_token(GATED, replace(told, autocast=True)) * told.tokens < 0.97 * counted


@pytest.mark.parametrize("name", ["gated", "grouped", "gelu"])
def test_selective_checkpointing_keeps_what_every_second_product_gives(name: str) -> None:
    """torchtitan's policy: that of the first, third, ... matrix product in the order in which they are computed."""
    shape, given = SHAPES[name], []
    block = training.Block(shape, PLAIN).to(torch.bfloat16)
    for module in block.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_hook(lambda _module, _inputs, output: given.append(output.nbytes))
    hidden = torch.randn(BATCH, LENGTH, WIDTH, dtype=torch.bfloat16)
    block(hidden, training._angles(torch.arange(LENGTH), shape.head_size // 2, PLAIN))
    assert len(given) == len(shape.linears())
    setup = TrainingSetup(batch_size=BATCH, sequence_length=LENGTH, selective=True, parameter_bytes=2)
    attention = 2 * WIDTH + 4 * shape.heads
    counted = 2 * WIDTH + attention + sum(given[::2]) / setup.tokens
    assert selective_bytes_per_token(shape, setup) == pytest.approx(counted)


def test_compiled_selective_checkpointing_does_not_keep_what_the_last_product_gives() -> None:
    """Counted of what torch.compile saves (aot_eager_decomp_partition): without it, of SwiGLU's seven products."""
    setup = TrainingSetup(batch_size=1, sequence_length=LENGTH, selective=True)
    for shape, less in ((GATED, 2 * WIDTH), (SHAPES["gelu"], 0)):  # GELU's last is the sixth, and computed again
        plain, compiled = (selective_bytes_per_token(shape, replace(setup, compiled=said)) for said in (False, True))
        assert plain - compiled == less


def test_selective_checkpointing_keeps_nothing_of_what_experts_compute() -> None:
    """Their grouped products are on no list of torchtitan's; without experts the MLP's gate and what is last count."""
    setup = TrainingSetup(batch_size=1, sequence_length=LENGTH, selective=True)
    few, many = (replace(GATED, experts=64, experts_per_token=each) for each in (1, 8))
    assert selective_bytes_per_token(few, setup) == selective_bytes_per_token(many, setup)
    assert selective_bytes_per_token(GATED, setup) - selective_bytes_per_token(many, setup) == 2 * (704 + WIDTH)
    assert products_again(GATED, setup) == 0.5
    passed, rest = 8 * 3 * 704 * WIDTH, 4 * WIDTH * WIDTH
    assert products_again(many, setup) == pytest.approx(
        (passed + rest / 2) / (passed + rest), rel=0.01
    )  # norms, router


def test_selective_checkpointing_keeps_the_tokens_that_experts_of_other_ranks_get_and_give() -> None:
    """all_to_all is on torchtitan's list, so that nothing is sent again; without other ranks nothing is sent at all."""
    setup = TrainingSetup(batch_size=1, sequence_length=LENGTH, selective=True)
    many = replace(GATED, experts=64, experts_per_token=8)
    spread = Layout(world_size=8, ranks_per_node=8, expert=8)
    more = selective_bytes_per_token(part_of(many, spread), setup) - selective_bytes_per_token(many, setup)
    assert more == 2 * 8 * WIDTH * 2
    sent = {
        (again.selective, one.phase): one.count
        for again in (setup, replace(setup, selective=False, checkpointing=True))
        for one in cut_traffic(many, again, spread).messages
        if one.operation == "all_to_all"
    }
    assert sent == {(True, "forward"): 2, (True, "backward"): 2, (False, "forward"): 2, (False, "backward"): 4}


def most_bytes_of_scores(heads: int, length: int) -> tuple[int, int]:
    """Live after attention whose scores are stored, and most of its backward pass, all tensors counted."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Live(TorchDispatchMode):
        now, most = 0, 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            output = func(*args, **(kwargs or {}))
            for storage in {one.untyped_storage() for one in tree_leaves(output) if isinstance(one, torch.Tensor)}:
                if not known.get(storage._cdata):
                    known[storage._cdata] = storage.nbytes()
                    self.now += storage.nbytes()
                    weakref.finalize(storage, self.gone, storage._cdata)
            self.most = max(self.most, self.now)
            return output

        def gone(self, data: int) -> None:
            self.now -= known.pop(data)

    known: dict[int, int] = {}
    query, key, value = (torch.randn(heads, length, 16, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    with Live() as live:
        given = torch.softmax(query @ key.transpose(-1, -2), -1) @ value
        kept = live.most = live.now
        given.backward(torch.ones_like(given))
    return kept, live.most


def test_the_backward_pass_of_stored_scores_has_two_gradients_of_them_at_once() -> None:
    """Of the probabilities and of what the softmax read, when what the MLP kept is gone; a fused softmax has one."""
    heads, length = 8, 1024
    kept, most = most_bytes_of_scores(heads, length)
    stored = TrainingSetup(batch_size=1, sequence_length=length, parameter_bytes=2, flash_attention=False)
    short = replace(GATED, feedforward=16)  # of which the MLP keeps next to nothing
    flash = passing_bytes_per_token(short, replace(stored, flash_attention=True))
    counted = (most - kept) / (heads * length * length)
    for setup, each in (
        (stored, counted),
        (replace(stored, kernels="fused"), 2),
        (replace(stored, wide_scores=True), 4),
    ):
        more = passing_bytes_per_token(short, setup) - flash
        assert more == pytest.approx(heads * length * each, rel=0.1)
    assert passing_bytes_per_token(short, replace(stored, flash_attention=True, wide_scores=True)) == flash


def test_of_compiled_adapters_inputs_that_nothing_needs_are_not_kept() -> None:
    """Falcon 7B with adapters of q and v took a fifth more compiled than not."""
    shape = Transformer(name="plain", layers=1, hidden=64, heads=4, feedforward=256, vocabulary=64, gated=False)
    setup = TrainingSetup(batch_size=1, sequence_length=16, lora_rank=4, parameter_bytes=2)
    some = replace(setup, lora_targets=("q_proj", "v_proj"))
    compiled = [block_activation_bytes_per_token(shape, replace(one, compiled=True)) for one in (setup, some)]
    assert compiled[0] - compiled[1] == 2 * (64 + 256)  # what the MLP's two layers read
    assert compiled[1] <= block_activation_bytes_per_token(shape, some)
