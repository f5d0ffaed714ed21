"""Training as a workload: steps of a model on random data or what it can learn, with DDP, FSDP, LoRA or QLoRA."""

from collections.abc import Iterator
from typing import Any

from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.training.models.config_shape import with_config
from raybench.benchmarks.training.models.shapes import check_model, shape_of, weight_shapes
from raybench.benchmarks.training.options import MADE_DATA, STRATEGIES, TrainingOptions, normalised
from raybench.benchmarks.workload import Workload
from raybench.errors import UsageError


def _parameters(spec: BenchmarkSpec) -> dict[str, Any]:
    return {"strategy": spec.name, **spec.options.parameters()}


def _needs(spec: BenchmarkSpec) -> Iterator[tuple[str, str]]:
    if spec.options.adapter == "peft" and spec.name in ("lora", "qlora"):
        yield ("peft", "peft")
        if spec.name == "qlora":
            yield ("bitsandbytes", "bitsandbytes")


def _check_spec(spec: BenchmarkSpec) -> None:
    """Raises UsageError for a hook that PyTorch has for replicas alone."""
    if spec.name == "fsdp" and spec.options.comm_hook == "powersgd":
        raise UsageError(
            "--comm-hook powersgd is of replicas (ddp, lora, qlora): fsdp reduces gradients in parts, for which "
            "PyTorch has no such hook; take --strategy ddp, or --comm-hook bf16"
        )


def _check_machine(spec: BenchmarkSpec, world_size: int) -> None:
    """Raises UsageError for weights that are not those of the model, and for data that cannot be read, or are few."""
    if spec.options.data not in MADE_DATA:
        from raybench.benchmarks.training.data.files import check_data

        check_data(spec.options.data)
    if spec.options.tokenizer is not None:
        from raybench.benchmarks.training.data.corpus import corpus_text
        from raybench.benchmarks.training.data.files import first_text
        from raybench.benchmarks.training.data.tokens import check_tokenizer

        text = corpus_text(2**16) if spec.options.data in MADE_DATA else first_text(spec.options.data)
        check_tokenizer(spec.options.tokenizer, text, shape_of(spec.options)[0].vocabulary)
    if spec.options.data != "random":
        from raybench.benchmarks.training.data.enough import check_samples

        check_samples(spec.options, world_size)
    if spec.options.weights is not None:
        from raybench.benchmarks.training.models.weight_config import details_of
        from raybench.benchmarks.training.models.weight_files import check_weights

        check_weights(spec.options.weights, weight_shapes(spec.options))
        details_of(spec.options.weights)


WORKLOAD = Workload(
    kind="training",
    benchmarks=dict.fromkeys(STRATEGIES, "raybench.benchmarks.training.benchmark"),
    options=TrainingOptions,
    normalised=lambda settings: with_config(normalised(settings)),
    check=check_model,
    labels=lambda spec, _: (f"{spec.name} {spec.options.called}",),
    parameters=_parameters,
    fewer="--steps",
    timed_steps=lambda spec: int(spec.options.steps),
    needs=_needs,
    check_spec=_check_spec,
    check_machine=_check_machine,
    traces=lambda spec: bool(spec.options.profile),
    records="raybench.benchmarks.training.records:RECORDS",
)
