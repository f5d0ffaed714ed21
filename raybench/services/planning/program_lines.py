"""How a program that was named is started: its command where it is known, else what it is to be told."""

from typing import TYPE_CHECKING

from raybench.performance_model.programs.releases import numbers_of
from raybench.performance_model.request.torchtitan import torchtitan_config
from raybench.services.planning.frameworks import (
    FP8,
    TORCHTITAN_AS,
    TORCHTITAN_SINCE,
    megatron_words,
    old_torchtitan_words,
    torchtitan_notes,
    torchtitan_words,
    zero_lines,
)

if TYPE_CHECKING:
    from raybench.performance_model.programs.program import Program
    from raybench.performance_model.request.request import EstimateRequest
    from raybench.performance_model.setup.training_setup import TrainingSetup
    from raybench.performance_model.ways.way import Way

# Adapters in the programs' own words, and those for a base in 4 and 8 bits behind them (read in August 2026):
# trl/trainer/model_config.py; src/axolotl/utils/schemas/peft.py; src/llamafactory/hparams/finetuning_args.py and
# model_args.py; swift/arguments/tuner_args.py and base_args/quant_args.py. The scales of a base in 4 bits are quantized
# as well by all of these but TRL, which is told so.
_ADAPTERS = {
    "trl": ("--use_peft True --lora_r {rank} --lora_target_modules {targets}", " --load_in_4bit True",
            " --load_in_8bit True"),
    "axolotl": ("adapter: {method}, lora_r: {rank}, {targets}", ", load_in_4bit: true", ", load_in_8bit: true"),
    "llama-factory": ("finetuning_type: lora, lora_rank: {rank}, lora_target: {targets}", ", quantization_bit: 4",
                      ", quantization_bit: 8"),
    "ms-swift": ("--tuner_type lora --lora_rank {rank} --target_modules {targets}",
                 " --quant_method bnb --quant_bits 4", " --quant_method bnb --quant_bits 8"),
}  # fmt: skip
_DOUBLE_SCALES = {"trl": " --use_bnb_nested_quant True"}
_EVERY_LAYER = {"trl": "all-linear", "axolotl": "lora_target_linear: true", "llama-factory": "all",
                "ms-swift": "all-linear"}  # fmt: skip


_USUAL_DTYPE = "bf16"  # which all have unless they are told otherwise, or are told by all


def program_lines(way: "Way", program: "Program", torchrun: str) -> tuple[str, ...]:
    """The program on every node, after ``torchrun``, and its arguments; one line where the command is the user's."""
    if program.starts == "megatron-lm":
        return f"{torchrun} pretrain_gpt.py", f"{program.title}, beside the model's own shape: {megatron_words(way)}"
    if program.starts == "torchtitan":
        return f"{torchrun} -m torchtitan.train", *_torchtitan(way, program.release)
    if program.starts == "raybench":
        return ()
    file = zero_lines(way) if program.name == "deepspeed" and not way.estimate.request.layout.is_cut else ()
    beside = _beside(way, program, has_file=bool(file))
    if file:
        file = (*file, *((FP8,) if way.estimate.request.dtype == "fp8" else ()))
        again = ("activations computed again",) if way.estimate.request.setup.checkpointing else ()
        return f"{torchrun} train.py", *file, *(f"{program.title}, beside that: {one}" for one in again), *beside
    settings = _words_of(program)
    if not settings:
        return f"no command of {program.title} is known here; tell it {_in_words(way)}", *beside
    return f"{program.title} ({_form(way)}): {settings.format(**_settings(way))}", *beside


def _words_of(program: "Program") -> str:
    """Its settings, as the release that was said has them."""
    release = numbers_of(program.release) if program.release else None
    old = program.old_settings.items() if release is not None else ()
    return next((words for until, words in old if (release or ()) < (numbers_of(until) or ())), program.settings)


def _beside(way: "Way", program: "Program", *, has_file: bool) -> tuple[str, ...]:
    """What else was estimated and no line has: adapters and their base, another optimizer, other types.

    ``has_file``: DeepSpeed's is printed, which has the type or where it has none is in fp32, and what fp8 is said by.
    """
    setup, settings = way.estimate.request.setup, _words_of(program)
    dtype = way.estimate.request.dtype
    is_told = dtype == _USUAL_DTYPE or (has_file and dtype != "tf32")
    told = [] if is_told else [f"computation in {dtype}"]
    told += [f"optimizer {setup.optimizer}"] if setup.optimizer not in ("adam", "adamw") else []
    has_it = "{checkpointing}" in settings or "{kept}" in settings
    told += ["activations computed again"] if settings and setup.checkpointing and not has_it else []
    if way.estimate.request.accumulation > 1 and not program.accumulates:
        told.append(f"it accumulates no gradients: a step there is of {_once(way)} samples")
    told += [f"moments in {'bf16' if setup.moment_bytes == 2 else 'fp32'}"] if setup.moment_bytes else []
    told += ["weights stored in bf16"] if setup.parameter_bytes == 2 and not setup.lora_rank else []
    told += ["activations kept in the CPU's memory"] if setup.offloads_activations else []
    adapters = _adapters(way.estimate.request, program)
    lines = [f"{program.title}, of adapters: {adapters}"] if setup.lora_rank else []
    return *lines, *([f"{program.title}, beside that: {', '.join(told)}"] if told else [])


def _once(way: "Way") -> int:
    """Samples of all ranks in one micro-batch."""
    return way.estimate.samples_per_step // way.estimate.request.accumulation


def has_double_scales(request: "EstimateRequest") -> bool:
    """Whether scales of its base in 4 bits are sure to be quantized too: not where that is the user's choice."""
    is_open = any(fact.name == "packing" and fact.is_open for fact in request.taken)
    return request.setup.quantized and request.setup.packing == "nf4" and not is_open


def _adapters(request: "EstimateRequest", program: "Program") -> str:
    """In the program's words where they are known, else in plain ones."""
    setup, is_double = request.setup, has_double_scales(request)
    base = 2 if setup.packing == "8bit" else 1 if setup.quantized else 0
    if program.name not in _ADAPTERS:
        layers = ", ".join(setup.lora_targets) or "every linear layer"
        over = ("", ", over a base in 4 bits (nf4)", ", over a base in 8 bits (bitsandbytes)")[base]
        return f"LoRA of rank {setup.lora_rank} on {layers}{over}{' with double quantization' if is_double else ''}"
    lora, *bases = _ADAPTERS[program.name]
    targets = _targets(setup, program.name) if setup.lora_targets else _EVERY_LAYER[program.name]
    method = "qlora" if base == 1 else "lora"
    words = lora.format(rank=setup.lora_rank, targets=targets, method=method) + ("", *bases)[base]
    return words + (_DOUBLE_SCALES.get(program.name, "") if is_double else "")


def _targets(setup: "TrainingSetup", program: str) -> str:
    if program == "axolotl":
        return f"lora_target_modules: [{', '.join(setup.lora_targets)}]"
    return (" " if program != "llama-factory" else ",").join(setup.lora_targets)


def _torchtitan(way: "Way", release: str) -> tuple[str, ...]:
    """As the release has it that was said: those before 0.3 take files, in other words."""
    model, dtype = way.estimate.request.model, way.estimate.request.dtype
    config, numbers = torchtitan_config(model), numbers_of(release) if release else None
    if numbers is not None and numbers < TORCHTITAN_SINCE:
        notes = torchtitan_notes(dtype, config, has_files=True)
        return f"torchtitan {release}: {old_torchtitan_words(way, config, numbers)}", *notes
    lead = TORCHTITAN_AS + ("" if config else f" has no configuration of {model.name}; beside one of your own")
    return f"{lead}: {torchtitan_words(way, config)}", *torchtitan_notes(dtype, config)


def _form(way: "Way") -> str:
    """``zero1, TP 2``: strategy and cuts, which its users choose by words of the program's own."""
    one = way.estimate.request
    layout = one.layout
    degrees = {"TP": layout.tensor, "CP": layout.context, "PP": layout.pipeline, "EP": layout.expert}
    return ", ".join([one.setup.strategy, *(f"{name} {ranks}" for name, ranks in degrees.items() if ranks > 1)])


def _settings(way: "Way") -> dict[str, str]:
    one = way.estimate.request
    return {
        "batch": f"{one.setup.batch_size}",
        "accumulation": f"{one.accumulation}",
        "micro_batches": f"{one.accumulation * one.layout.data}",
        "samples": f"{way.estimate.samples_per_step}",
        "length": f"{one.setup.sequence_length}",
        "ranks": f"{one.layout.node.ranks}",
        "nodes": f"{one.layout.nodes}",
        "checkpointing": str(one.setup.checkpointing).lower(),
        "kept": str(not one.setup.checkpointing).lower(),
    }


def _in_words(way: "Way") -> str:
    one = way.estimate.request
    kept = "computed again" if one.setup.checkpointing else "kept"
    return (
        f"{_form(way)}, a micro-batch of {one.setup.batch_size}, accumulation of {one.accumulation}, samples of "
        f"{one.setup.sequence_length} tokens, activations {kept}"
    )
