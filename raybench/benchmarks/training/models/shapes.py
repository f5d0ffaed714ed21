"""Sizes and operations of the models that can be trained, without building them: the driver needs them too."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from raybench.benchmarks.training.options import SPIRAL_CLASSES, SPIRAL_INPUTS, TrainingOptions
from raybench.errors import UsageError, unknown_name
from raybench.performance_model.models.presets import ALIASES, PRESETS, preset_named
from raybench.performance_model.models.transformer import Transformer

CNN_IMAGE, CNN_WIDTHS, CNN_CLASSES = 32, (32, 64, 128), 10
BYTE_VALUES = 256
LONGEST_DEFAULT = 2048  # what training runs of 7B models take where nobody says
SIZE_FIELDS = {
    "layers": "layers",
    "hidden_size": "hidden",
    "heads": "heads",
    "kv_heads": "kv_heads",
    "intermediate_size": "feedforward",
    "vocabulary": "vocabulary",
}


def model_names() -> tuple[str, ...]:
    """Every name that ``--model`` takes."""
    return ("mlp", "cnn", *PRESETS, *ALIASES)


def shape_of(options: TrainingOptions) -> tuple[Transformer, int]:
    """The transformer that the options name, resized as they say, and its sequence length.

    Raises UsageError for a model that there is not, sizes that do not fit together, and a sequence longer than the
    table of positions.
    """
    shape = preset_named(options.model)
    changes = {field: value for flag, field in SIZE_FIELDS.items() if (value := getattr(options, flag)) is not None}
    if changes:
        shape = shape.resized(**changes)
    length = options.sequence_length or min(shape.context, LONGEST_DEFAULT)
    if shape.positions and length > shape.positions:
        raise UsageError(
            f"--sequence-length is {length}, and {options.called} has a table of {shape.positions} positions; take a "
            "shorter one, or a model with rotary positions such as llama"
        )
    return shape, length


def check_model(options: TrainingOptions) -> None:
    """Raises UsageError for a model that there is not, or options that it does not have."""
    if (options.data == "spiral") > (options.model == "mlp"):
        raise UsageError(f"--data spiral is of --model mlp, and --model is {options.model}; take --data text")
    if options.data not in ("random", "spiral") and options.model in ("mlp", "cnn"):
        raise UsageError(
            f"--data {options.data} is text, and --model is {options.model}; take --model tiny, or random data"
        )
    if options.model in ("mlp", "cnn"):
        given = [flag for flag in SIZE_FIELDS if getattr(options, flag) is not None]
        given += ["sequence_length"] if options.sequence_length else []
        given += ["lora_targets"] if options.lora_targets else []
        if given:
            raise UsageError(f"--{given[0].replace('_', '-')} is of transformers; --model is {options.model}")
        return
    if options.model not in PRESETS and options.model not in ALIASES:
        raise unknown_name("model", options.model, model_names())
    shape, _ = shape_of(options)
    shape.lora_parameters(options.lora_rank, options.lora_targets)  # raises for a target that it has not
    if options.data != "random" and options.tokenizer is None and shape.vocabulary < BYTE_VALUES:
        raise UsageError(f"--data {options.data} is read byte by byte; --vocabulary must be {BYTE_VALUES} or more")


def parameter_count(options: TrainingOptions) -> int | None:
    """Parameters of the model, without adapters; None of a ``cnn``."""
    return sum(map(prod, weight_shapes(options).values())) or None


def mlp_sizes(options: TrainingOptions) -> tuple[int, ...]:
    """Widths from the input to the output: as wide as each other, or of spirals coordinates in and classes out."""
    widths = options.hidden_dims
    return (SPIRAL_INPUTS, *widths, SPIRAL_CLASSES) if options.data == "spiral" else (*widths, widths[0])


def flop_per_sample(options: TrainingOptions, strategy: str) -> float:
    """Operations of one training step a sample, forward and backward, recomputation not counted.

    Transformers by their shape (performance_model/models/transformer.py). The others: 2 operations a weight and use,
    three times (forward, gradient of the input, gradient of the weights).
    """
    if options.model == "mlp":
        return 6.0 * _perceptron_weights(mlp_sizes(options))
    if options.model == "cnn":
        return 6.0 * _convolution_uses()
    shape, length = shape_of(options)
    if strategy in ("lora", "qlora"):
        return length * shape.lora_flops_per_token(length, options.lora_rank, options.lora_targets)
    return length * shape.flops_per_token(length)


def weight_shapes(options: TrainingOptions) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the model's parameters, as transformer.py and models.py have them; none of a ``cnn``."""
    if options.model == "cnn":
        return {}
    if options.model == "mlp":
        layers = enumerate(pairwise(mlp_sizes(options)))
        return {name: size for index, sizes in layers for name, size in _linear(f"layers.{index}", *sizes).items()}
    shape = shape_of(options)[0]
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (shape.vocabulary, shape.hidden)}
    if shape.positions:
        found["model.embed_positions.weight"] = (shape.positions, shape.hidden)
    for layer in range(shape.layers):
        found |= {f"model.layers.{layer}.{name}": size for name, size in _block_shapes(shape).items()}
    found |= _norm_shapes("model.norm", shape)
    return found if shape.tied else found | {"lm_head.weight": (shape.vocabulary, shape.hidden)}


def _block_shapes(shape: Transformer) -> dict[str, tuple[int, ...]]:
    found = _norm_shapes("input_layernorm", shape) | _norm_shapes("post_attention_layernorm", shape)
    for name, sizes in shape.linears().items():
        part = "mlp" if name in ("gate_proj", "up_proj", "down_proj") else "self_attn"
        biased = shape.biases or (shape.qkv_biases and name in ("q_proj", "k_proj", "v_proj"))
        found |= _linear(f"{part}.{name}", *sizes, biased=biased)
    return found


def _norm_shapes(name: str, shape: Transformer) -> dict[str, tuple[int, ...]]:
    names = ("weight", "bias") if shape.norm == "layer" else ("weight",)
    return {f"{name}.{one}": (shape.hidden,) for one in names}


def _linear(name: str, inputs: int, outputs: int, *, biased: bool = True) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {f"{name}.weight": (outputs, inputs)}
    return found | {f"{name}.bias": (outputs,)} if biased else found


def _perceptron_weights(sizes: Sequence[int]) -> int:
    return sum(before * after for before, after in pairwise(sizes))


def _convolution_uses() -> int:
    """Multiplications of one forward pass: each 3x3 weight once a pixel that it gives."""
    uses, before, side = 0, 3, CNN_IMAGE
    for width in CNN_WIDTHS:
        uses += 9 * before * width * side**2 + 9 * width * width * (side // 2) ** 2
        before, side = width, side // 2
    return uses + before * CNN_CLASSES
