"""Parameter counts and operations of transformers, against the released models and published figures."""

from dataclasses import replace

import pytest

from raybench.errors import UsageError
from raybench.performance_model.models.presets import PRESETS, preset_named

# numel() over the parameters of the released checkpoints.
RELEASED = {
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "tinyllama-1.1b": 1_100_048_384,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "mistral-7b": 7_241_732_096,
    "qwen2.5-7b": 7_615_616_512,
}


@pytest.mark.parametrize("name", sorted(RELEASED))
def test_parameter_counts_are_those_of_the_released_model(name: str) -> None:
    assert PRESETS[name].parameters == RELEASED[name]


def test_every_preset_is_counted_or_ours() -> None:
    assert set(PRESETS) - set(RELEASED) == {"tiny", "small", "gpt3-175b"}
    assert PRESETS["gpt3-175b"].parameters == pytest.approx(175e9, rel=0.005)


def test_flops_per_token_reproduce_torchtitans_published_mfu() -> None:
    flops = preset_named("llama-8b").flops_per_token(8192)
    assert flops == pytest.approx(57.9e9, rel=1e-3)
    assert 5762 * flops / 989e12 == pytest.approx(0.337, abs=5e-4)
    assert 6667 * flops / 989e12 == pytest.approx(0.390, abs=5e-4)


def test_recomputing_every_block_adds_its_forward_pass() -> None:
    model = preset_named("llama-8b")
    extra = model.hardware_flops_per_token(1) - model.flops_per_token(1)
    assert extra == pytest.approx(2 * 32 * model.parameters_per_layer, rel=1e-3)
    assert model.hardware_flops_per_token(4096, recompute=0) == model.flops_per_token(4096)


def test_a_tied_table_is_multiplied_and_an_untied_one_is_not() -> None:
    assert PRESETS["llama-3.2-1b"].lookup_parameters == 0
    assert PRESETS["llama-3.1-8b"].lookup_parameters == 128256 * 4096
    assert PRESETS["gpt2"].lookup_parameters == 1024 * 768


def test_lora_counts_each_target_and_trains_two_thirds_of_the_operations() -> None:
    model = preset_named("llama-2-7b")
    assert model.lora_parameters(8, ("q_proj", "v_proj")) == 4_194_304  # what peft prints for it
    assert model.lora_parameters(16) == 39_976_960
    ratio = model.lora_flops_per_token(1, 8, ("q_proj",)) / model.flops_per_token(1)
    assert ratio == pytest.approx(2 / 3, rel=1e-3)
    with pytest.raises(UsageError, match=r"no linear layer of llama-2-7b .* 'query'"):
        model.lora_parameters(8, ("query",))


def test_any_size_may_be_given_and_nonsense_is_refused() -> None:
    model = preset_named("tiny").resized(layers=3, hidden=128, heads=8, feedforward=512)
    assert model.name == "tiny with layers 3, hidden size 128, heads 8, intermediate size 512"
    assert model.head_size == 16
    for wrong in ({"heads": 5}, {"layers": 0}, {"kv_heads": 3}):
        with pytest.raises(UsageError):
            preset_named("tiny").resized(**wrong)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"experts": 8}, "0 of 8 experts cannot compute each token"),
        ({"experts": 2, "experts_per_token": 4}, "4 of 2 experts"),
        ({"dense_layers": 1}, "1 of 4 layers cannot be without experts"),
        ({"dense_layers": 5, "dense_feedforward": 64}, "5 of 4 layers"),
    ],
)
def test_experts_that_cannot_be_are_refused(sizes: dict[str, int], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        replace(preset_named("tiny"), layers=4, **sizes)


def test_an_unknown_model_lists_those_there_are() -> None:
    with pytest.raises(
        UsageError, match=r"no model 'llama-9b'; of another.*; did you mean 'llama-8b'.* There are: tiny, small"
    ):
        preset_named("llama-9b")
