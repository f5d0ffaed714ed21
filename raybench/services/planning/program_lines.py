"""How a program that was named is started: its command where it is known, else what it is to be told."""

from typing import TYPE_CHECKING

from raybench.performance_model.programs.torchtitan import torchtitan_config
from raybench.services.planning.frameworks import megatron_words, torchtitan_words

if TYPE_CHECKING:
    from raybench.performance_model.programs.program import Program
    from raybench.performance_model.training_plan import Way


def program_lines(way: "Way", program: "Program", torchrun: str) -> tuple[str, ...]:
    """The program on every node, after ``torchrun``, and its arguments; one line where the command is the user's."""
    if program.starts == "megatron-lm":
        return f"{torchrun} pretrain_gpt.py", f"{program.title}, beside the model's own shape: {megatron_words(way)}"
    if program.starts == "torchtitan":
        return f"{torchrun} -m torchtitan.train", _torchtitan(way, program.title)
    if program.starts == "raybench":
        return ()
    if not program.settings:
        return (f"no command of {program.title} is known here; tell it {_in_words(way)}",)
    return (f"{program.title} ({_form(way)}): {program.settings.format(**_settings(way))}",)


def _torchtitan(way: "Way", title: str) -> str:
    model = way.estimate.request.model.name
    config = torchtitan_config(model)
    lead = title if config else f"{title} has no configuration of {model}; beside one of your own"
    return f"{lead}: {torchtitan_words(way, config)}"


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
        "samples": f"{way.estimate.samples_per_step}",
        "length": f"{one.setup.sequence_length}",
        "ranks": f"{one.layout.node.ranks}",
        "nodes": f"{one.layout.nodes}",
        "checkpointing": str(one.setup.checkpointing).lower(),
    }


def _in_words(way: "Way") -> str:
    one = way.estimate.request
    kept = "computed again" if one.setup.checkpointing else "kept"
    return (
        f"{_form(way)}, a micro-batch of {one.setup.batch_size}, accumulation of {one.accumulation}, samples of "
        f"{one.setup.sequence_length} tokens, activations {kept}"
    )
