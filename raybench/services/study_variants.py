"""The variants of each kind of study, from the comma lists that name them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from raybench.documents.study.plan import Kind, Variant
from raybench.errors import UsageError, unknown_name


def variants_of(kind: Kind, subject: Mapping[str, Any]) -> Sequence[Variant]:
    """What a study compares. ``subject``: the options of its kind alone; None: its default. Raises UsageError."""
    return _VARIANTS[kind](**subject)


def _networks(*, networks: str | None = None) -> Sequence[Variant]:
    from raybench.studies.network import network_variant

    names = _names_of(networks, "--networks", "tcp,rdma-no-gdr,rdma")
    if len(names) < 2:
        raise UsageError(f"--networks {networks} has nothing to compare with; name two networks or more")
    return [network_variant(name) for name in names]


def _node_counts(
    *, nodes: str | None = None, mode: str | None = None, batch_size: int | None = None
) -> Sequence[Variant]:
    from raybench.studies.scaling import MODES, scaling_variants

    modes = [one for one in MODES if mode in (None, "both", one)]
    return scaling_variants(_numbers_of(nodes, "--nodes", "1,2,4"), modes, batch_size)


def _strategies(*, strategies: str | None = None) -> Sequence[Variant]:
    from raybench.studies.strategy import strategy_variant

    return [strategy_variant(one) for one in _names_of(strategies, "--strategies", "ddp,fsdp")]


def _batch_sizes(*, batch_sizes: str | None = None) -> Sequence[Variant]:
    from raybench.studies.sweep import batch_variant

    return [batch_variant(one) for one in _names_of(batch_sizes, "--batch-sizes", "1,2,4,8,16")]


def _models(*, models: str | None = None) -> Sequence[Variant]:
    from raybench.benchmarks.training.models.shapes import model_names
    from raybench.studies.sweep import model_variant

    if models is None:
        raise UsageError("say which models to compare, such as --models gpt2,gpt2-xl; or continue with --resume DIR")
    chosen = [model_variant(one) for one in _names_of(models, "--models", "")]
    for variant in chosen:
        if variant.arguments[:2] != ("--model", "mlp") and variant.name.lower() not in model_names():
            raise unknown_name("model", variant.name, model_names())
    return chosen


def _communication(
    *,
    comm_hooks: str | None = None,
    bucket_sizes: str | None = None,
    buffer_sizes: str | None = None,
    algorithms: str | None = None,
) -> Sequence[Variant]:
    from raybench.studies.communication import (
        HOOKS,
        algorithm_variant,
        bucket_variant,
        buffer_variant,
        hook_variant,
    )

    if (comm_hooks, bucket_sizes, buffer_sizes, algorithms) == (None, None, None, None):
        comm_hooks = ",".join(HOOKS)
    asked = (
        ("--comm-hooks", comm_hooks, hook_variant),
        ("--bucket-sizes", bucket_sizes, bucket_variant),
        ("--buffer-sizes", buffer_sizes, buffer_variant),
        ("--algorithms", algorithms, algorithm_variant),
    )
    chosen = [make(one) for option, text, make in asked if text is not None for one in _names_of(text, option, "")]
    if len(chosen) < 2:
        raise UsageError(f"{chosen[0].name} has nothing to be compared with; name two or more, the first as it is now")
    return chosen


def _precisions(*, dtypes: str | None = None) -> Sequence[Variant]:
    from raybench.studies.precision import precision_variant

    chosen = [precision_variant(one) for one in _names_of(dtypes, "--dtypes", "fp32,bf16,fp16")]
    if len(chosen) < 2:
        raise UsageError(f"{chosen[0].name} has nothing to be compared with; name two or more, the first as it is now")
    return chosen


_VARIANTS: Mapping[Kind, Callable[..., Sequence[Variant]]] = {
    "network": _networks,
    "scaling": _node_counts,
    "strategy": _strategies,
    "batch-size": _batch_sizes,
    "model-size": _models,
    "communication": _communication,
    "precision": _precisions,
}


def _names_of(text: str | None, option: str, default: str) -> list[str]:
    """The parts of a comma list, the default's where there is no text. Raises UsageError for an empty one."""
    parts = [part.strip() for part in (default if text is None else text).split(",")]
    if not all(parts):
        raise UsageError(f"{option} '{text}' has an empty part; separate names with one comma each")
    return parts


def _numbers_of(text: str | None, option: str, default: str) -> list[int]:
    """Whole numbers of a comma list, the default's where there is no text. Raises UsageError for anything else."""
    parts = _names_of(text, option, default)
    if not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts):
        raise UsageError(f"{option} '{text}' is not a list of integers, such as 1,2,4,8")
    return [int(part) for part in parts]
