"""Parts of training that need no ranks: shapes, 4-bit weights, weights from files, options."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from raybench.benchmarks.memory.trial import Order, measure, measure_apart
from raybench.benchmarks.training.models.adapters import AdaptedLinear, FrozenLinear, QuantisedWeight, adapt, nf4_values
from raybench.benchmarks.training.models.config_shape import with_config
from raybench.benchmarks.training.models.initial import fill
from raybench.benchmarks.training.models.shapes import check_model, flop_per_sample, shape_of, weight_shapes
from raybench.benchmarks.training.models.trainable import trainable_of
from raybench.benchmarks.training.models.weight_config import PLAIN, details_of
from raybench.benchmarks.training.models.weight_files import check_weights
from raybench.benchmarks.training.models.weights import load_weights
from raybench.benchmarks.training.options import TrainingOptions, dims_of, normalised
from raybench.benchmarks.training.record import phase_seconds
from raybench.errors import UsageError
from raybench.performance_model.search import largest_fitting


@pytest.mark.parametrize("model", ["tiny", "small"])
def test_a_model_has_the_parameters_of_its_shape(model: str) -> None:
    options = TrainingOptions(model=model)
    built = trainable_of(options).build()
    assert sum(one.numel() for one in built.parameters()) == shape_of(options)[0].parameters


def test_a_gpt_has_its_position_table_and_biases() -> None:
    options = TrainingOptions(model="gpt2", layers=1, hidden_size=32, heads=2, intermediate_size=64, vocabulary=50)
    built = trainable_of(options).build()
    assert sum(one.numel() for one in built.parameters()) == shape_of(options)[0].parameters


def test_operations_of_small_models() -> None:
    mlp = TrainingOptions(model="mlp", hidden_dims=(64, 32, 16))
    assert flop_per_sample(mlp, "ddp") == 6 * (64 * 32 + 32 * 16 + 16 * 64)


def test_nf4_has_an_exact_zero_and_its_ends() -> None:
    values = nf4_values()
    assert len(values) == 16
    assert (values[0], values[7], values[15]) == (-1, 0, 1)
    assert values[8] == pytest.approx(0.0796, abs=1e-4)  # QLoRA, appendix E
    assert values[1] == pytest.approx(-0.6962, abs=1e-4)


def test_a_quantised_weight_is_near_and_small() -> None:
    weight = torch.randn(130, 70, generator=torch.Generator().manual_seed(1))
    quantised = QuantisedWeight(weight)
    error = (quantised.dense(torch.float32) - weight).norm() / weight.norm()
    assert 0.05 < error < 0.12
    assert quantised.stored_bytes * 8 / weight.numel() < 4.3


def test_adapters_begin_as_the_base_and_alone_are_trained() -> None:
    base = torch.nn.Linear(64, 32)
    inputs = torch.randn(4, 64)
    adapted = AdaptedLinear(base, rank=4, alpha=8, quantised=False)
    assert torch.allclose(adapted(inputs), base(inputs), atol=1e-6)
    adapted(inputs).sum().backward()
    assert [name for name, one in adapted.named_parameters() if one.grad is not None] == ["lora_a", "lora_b"]


@pytest.mark.parametrize("targets", [(), ("q_proj", "v_proj")])
@pytest.mark.parametrize("quantised", [True, False])
def test_adapters_are_as_many_as_the_formula_says(targets: tuple[str, ...], quantised: bool) -> None:
    options = TrainingOptions(model="tiny", lora_rank=4, lora_targets=targets)
    model = trainable_of(options).build()
    fill(model, seed=0)
    before = model(tokens := torch.arange(64)[None])
    adapt(model, rank=4, alpha=8, quantised=quantised, targets=targets)
    trained = [name for name, one in model.named_parameters() if one.requires_grad]
    count = sum(one.numel() for one in model.parameters() if one.requires_grad)
    assert count == shape_of(options)[0].lora_parameters(4, targets)
    assert {name.split(".")[-2] for name in trained} == set(targets or shape_of(options)[0].linears())
    frozen = [one for one in model.modules() if isinstance(one, FrozenLinear)]
    assert len(frozen) == 7 * 2  # the base of the others is in 4 bits all the same
    assert all((one.quantised is not None) == quantised for one in frozen)
    assert torch.allclose(model(tokens), before, atol=0.05 if quantised else 1e-6)


def safetensors(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_weights_come_from_files_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    model = trainable_of(TrainingOptions(model="tiny")).build()
    source = {name: torch.randn(one.shape) for name, one in model.named_parameters()}
    safetensors(tmp_path / "model.safetensors", source)
    load_weights(model, str(tmp_path))
    assert all(torch.equal(one, source[name]) for name, one in model.named_parameters())
    whole = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[:-100])
    with pytest.raises(UsageError, match="cut off"):
        load_weights(model, str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"\x80\x04" + whole[:50])
    with pytest.raises(UsageError, match="not a safetensors"):
        load_weights(model, str(tmp_path))


@pytest.mark.parametrize(
    "options",
    [
        {"model": "tiny"},
        {"model": "gpt2", "layers": 2},  # a table of positions, biases, shifts, tied
        {"model": "llama-8b", "layers": 2, "vocabulary": 97},  # grouped-query attention
        {"model": "qwen-7b", "layers": 1},  # biases of q, k and v alone
        {"model": "mlp", "hidden_dims": (8, 4, 2)},
    ],
)
def test_the_driver_knows_the_tensors_that_the_ranks_will_ask_for(options: dict[str, Any]) -> None:
    chosen = TrainingOptions(**options)
    with torch.device("meta"):
        model = trainable_of(chosen).build()
    assert weight_shapes(chosen) == {name: tuple(one.shape) for name, one in model.named_parameters()}


FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("num_key_value_heads", {"rms_norm_eps": 1e-3}),
    "Llama, stretched": (
        "num_key_value_heads",
        {"tie_word_embeddings": True, "max_position_embeddings": 131072, "rope_parameters": {
            "rope_theta": 500000.0, "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 16}},
    ),
    "Llama, linear": ("num_key_value_heads", {"rope_parameters": {
        "rope_theta": 1e4, "rope_type": "linear", "factor": 4.0}}),
    "Mistral": ("num_key_value_heads", {"rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}}),
    "Qwen2": ("num_key_value_heads", {"rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}}),
    "GPT2": ("", {"vocab_size": 97, "n_embd": 32, "n_layer": 2, "n_head": 4, "bos_token_id": 1, "eos_token_id": 1}),
}  # fmt: skip
SIZES = {"vocab_size": 97, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


def hugging_face(name: str, folder: Path) -> Any:
    """A model of transformers with weights far from zero, saved as people have it."""
    transformers = pytest.importorskip("transformers")
    family, (grouped, given) = name.split(",", maxsplit=1)[0], FAMILIES[name]
    sizes = {**SIZES, grouped: 2} if grouped else {}
    config = getattr(transformers, f"{family}Config")(**{**sizes, **given})
    torch.manual_seed(1)
    model = getattr(transformers, "GPT2LMHeadModel" if family == "GPT2" else f"{family}ForCausalLM")(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() < 2), std=0.3)
    model.save_pretrained(folder)
    return model.float().eval()


@pytest.mark.long  # transformers takes seconds to import
@pytest.mark.parametrize("name", FAMILIES)
def test_a_folder_of_hugging_face_computes_what_transformers_does(name: str, tmp_path: Path) -> None:
    reference = hugging_face(name, tmp_path)
    options = TrainingOptions(**with_config({"weights": str(tmp_path), "sequence_length": 48}))
    check_model(options)
    check_weights(str(tmp_path), weight_shapes(options))
    model = trainable_of(options).build()
    load_weights(model, str(tmp_path))
    tokens = torch.randint(97, (2, 48))
    assert model(tokens).item() == pytest.approx(reference(tokens, labels=tokens).loss.item(), rel=1e-5)


def as_gpt2(name: str, source: dict[str, torch.Tensor]) -> torch.Tensor:
    """A tensor of GPT-2's own name from the parameters of our model."""
    layer, module, kind = re.fullmatch(r"h\.(\d+)\.(.+)\.(weight|bias)", name).groups()  # type: ignore[union-attr]
    ours = {"ln_1": "input_layernorm", "ln_2": "post_attention_layernorm", "attn.c_proj": "self_attn.o_proj",
            "mlp.c_fc": "mlp.up_proj", "mlp.c_proj": "mlp.down_proj"}  # fmt: skip
    names = [f"self_attn.{one}_proj" for one in "qkv"] if module == "attn.c_attn" else [ours[module]]
    whole = torch.cat([source[f"model.layers.{layer}.{one}.{kind}"] for one in names])
    return whole.t() if kind == "weight" and not module.startswith("ln") else whole


@pytest.mark.parametrize("prefix", ["", "transformer."])
def test_weights_of_gpt2_are_found_by_its_own_names(prefix: str, tmp_path: Path) -> None:
    options = TrainingOptions(model="gpt2", layers=2, hidden_size=32, heads=2, intermediate_size=64, vocabulary=11)
    model = trainable_of(options).build()
    source = {name: torch.randn(one.shape) for name, one in model.named_parameters()}
    modules = ("ln_1", "ln_2", "attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
    names = [f"h.{layer}.{one}.{kind}" for layer in range(2) for one in modules for kind in ("weight", "bias")]
    stored = {name: as_gpt2(name, source) for name in names}
    outer = {"wte": "embed_tokens", "wpe": "embed_positions", "ln_f": "norm"}
    stored |= {f"{theirs}.weight": source[f"model.{ours}.weight"] for theirs, ours in outer.items()}
    stored |= {"ln_f.bias": source["model.norm.bias"]}
    stored |= {"h.0.attn.bias": torch.ones(1, 1, 4, 4)}  # a mask that old folders have, and no parameter
    safetensors(tmp_path / "model.safetensors", {prefix + name: tensor for name, tensor in stored.items()})
    check_weights(str(tmp_path), weight_shapes(options))
    load_weights(model, str(tmp_path))
    assert all(torch.equal(one, source[name]) for name, one in model.named_parameters())


def test_positions_that_are_not_computed_are_refused_and_no_configuration_is_none(tmp_path: Path) -> None:
    assert details_of(str(tmp_path)) == PLAIN
    for rotation, said in (
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "'yarn' are not computed"),
        ({"rope_scaling": {"type": "linear"}}, "of the kind 'linear' have no factor"),
        ({"rope_scaling": "linear"}, "not a configuration"),
    ):
        (tmp_path / "config.json").write_text(json.dumps(rotation))
        with pytest.raises(UsageError, match=said):
            details_of(str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"rope_scaling": {"type": "dynamic", "factor": 2.0}}))
    assert details_of(str(tmp_path)) == PLAIN


def test_a_folder_is_judged_by_its_headers_alone(tmp_path: Path) -> None:
    wanted = {"a": (2, 3), "b": (4,)}
    safetensors(tmp_path / "1.safetensors", {"a": torch.zeros(2, 3), "unused": torch.zeros(1)})
    with pytest.raises(UsageError, match="lacks 1 tensors of the model, such as b"):
        check_weights(str(tmp_path), wanted)
    safetensors(tmp_path / "2.safetensors", {"b": torch.zeros(4)})
    check_weights(str(tmp_path), wanted)
    check_weights(str(tmp_path), {})  # a model whose names are not known: whatever the headers say
    with pytest.raises(UsageError, match=r"b has the shape \(4,\), the model \(5,\)"):
        check_weights(str(tmp_path), wanted | {"b": (5,)})
    whole = (tmp_path / "2.safetensors").read_bytes()
    (tmp_path / "2.safetensors").write_bytes(whole[:-1])
    with pytest.raises(UsageError, match="the data of b are cut off"):
        check_weights(str(tmp_path), wanted)


def test_phases_add_up() -> None:
    steps = [[("data:0", 1.0), ("forward:0", 3.0), ("backward:0", 6.0), ("end", 6.0)], [("data:0", 7.0), ("end", 8.0)]]
    phases = phase_seconds(steps)
    assert phases == {"data": (1.0, 2.0), "forward": (2.0, 0.0), "backward": (3.0, 0.0)}
    assert sum(map(sum, phases.values())) == steps[-1][-1][1]  # a pause before a step's end is lost in no sum


@pytest.mark.parametrize("answer", [0, 1, 2, 3, 7, 8, 9, 100, 127, 128])
def test_the_largest_that_fits_is_found_in_few_trials(answer: int) -> None:
    asked: list[int] = []

    def fits(size: int) -> bool:
        asked.append(size)
        return size <= answer

    assert largest_fitting(fits, most=128) == answer
    assert len(asked) == len(set(asked)) <= 16


def test_memory_of_a_trial_in_a_process_of_its_own() -> None:
    options = TrainingOptions(model="mlp", hidden_dims=(64, 32), batch_size=16)
    order = Order(device="cpu", strategy="single", training=options, limit_bytes=10**9)
    trial = measure(order)
    parameters = 4 * (64 * 32 + 32 + 32 * 64 + 64)
    assert (trial.fits, trial.parameters, trial.gradients) == (True, parameters, parameters)
    assert trial.optimizer_state == 2 * parameters + 4 * 4  # two moments, a step count each of four tensors
    assert trial.activations >= 16 * (64 + 32) * 4
    assert measure_apart(order, 120) == trial
    assert not measure(Order(device="cpu", strategy="single", training=options, limit_bytes=1000)).fits


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "nonsense"}, "there is no model 'nonsense'"),
        ({"model": "gpt2", "sequence_length": 4096}, "table of 1024 positions"),
        ({"model": "mlp", "layers": 3}, "--layers is of transformers"),
        ({"heads": 3}, "not a multiple"),
        ({"dtype": "int8"}, "--dtype 'int8' is not known"),
        ({"steps": 0}, "--steps is 0"),
        ({"learning_rate": float("nan")}, "--learning-rate"),
        ({"sharding": "half"}, "--sharding 'half'"),
        ({"lora_targets": ("q_proj", "c_attn")}, "linear layer of tiny"),
        ({"model": "mlp", "lora_targets": ("q_proj",)}, "--lora-targets is of transformers"),
        ({"adapter": "loralib"}, "--adapter 'loralib' is not known; there are: own, peft"),
    ],
)
def test_what_cannot_be_trained_is_wrong_use(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_model(TrainingOptions(**options))


def test_short_names_and_widths_as_typed() -> None:
    assert normalised({"dtype": "bf16", "hidden_dims": "64 32,16", "lora_targets": "q_proj, v_proj"}) == {
        "dtype": "bfloat16",
        "hidden_dims": (64, 32, 16),
        "lora_targets": ("q_proj", "v_proj"),
    }
    with pytest.raises(UsageError, match="empty part"):
        normalised({"lora_targets": "q_proj,"})
    with pytest.raises(UsageError, match="hidden-dims"):
        dims_of("64;32")
