"""How the model of a published row was trained."""

from dataclasses import replace
from typing import Any

from raybench.performance_model.request.heaviest import heaviest
from raybench.performance_model.setup.adapters import Packing
from raybench.performance_model.setup.training_setup import TrainingSetup
from tests.performance_model.published_sources import by_source, is_cast_up, is_fsdp2, overlaps

_KEEPING = (
    "zero1",
    "zero2",
    "zero3",
)  # whose gradients stay from step to step, as ``raybench estimate`` has them
# Share of the blocks whose forward pass is done twice.
_RECOMPUTED = {"none": 0.0, "full": 1.0, "every-second": 0.5, "every-third": 1 / 3, "selective": 0.0, "core_attn": 0.0}
_PACKINGS: dict[str, Packing] = {"qlora-single": "nf4-single", "qlora-gptq": "gptq", "qlora-8bit": "8bit"}
_SAID = {"yes": True, "no": False}


def setup_of(row: dict[str, str]) -> TrainingSetup:
    """How the row's model was trained: by its columns, and by what is known of its source."""
    setup = TrainingSetup(**_by_columns(row), **by_source(row))
    if row["kernels"] in ("plain", "fused"):
        setup = replace(setup, kernels=row["kernels"])  # type: ignore[arg-type]
    if row["kernels"] == "lean":
        setup = replace(setup, kernels="fused", keeps_least=True)
    if row["loss"]:
        setup = replace(setup, loss=row["loss"])  # type: ignore[arg-type]
    setup = heaviest(setup, kernels_known=bool(row["kernels"]), loss_known=bool(row["loss"]))
    return replace(
        setup,
        on_streams=setup.is_sharded and not is_fsdp2(row["source"]),
        upcast=setup.upcast or (setup.quantized and is_cast_up(row["source"])),
        wide_scores=setup.wide_scores and not setup.math_attention,
        sequence_parallel=_SAID.get(row.get("sequence_parallel", "")),
        overlaps=True if row["strategy"] == "zero1" and overlaps(row["source"]) and not row["lora_rank"] else None,
        moment_bytes=int(row.get("moment_bytes") or 0),
    )


def _by_columns(row: dict[str, str]) -> dict[str, Any]:
    share = _RECOMPUTED[row["checkpointing"]]
    return {
        "batch_size": int(row["batch_size"]),
        "sequence_length": int(row["sequence_length"]),
        "strategy": row["strategy"],  # checked by the class
        "optimizer": row["optimizer"].removesuffix("-fused"),
        "parameter_bytes": int(row["parameter_bytes"]),
        "checkpointing": share > 0,
        "recomputed_share": share or 1.0,
        "recompute_modules": ("core_attn",) if row["checkpointing"] == "core_attn" else (),
        "selective": row["checkpointing"] == "selective",
        "gradient_bytes": int(row["reduce_bytes"]),
        "reduce_bytes": int(row["reduce_bytes"]),
        "whole_gradients": row["gradients"] == "whole",
        "optimizer_weights": row["weights"] == "optimizer",
        "offload": "none" if row["offload"] in ("", "activations") else row["offload"],
        "offloads_activations": row["offload"] == "activations",
        "flash_attention": row["flash_attention"] == "yes",
        "fused_optimizer": row["optimizer"].endswith("-fused"),
        "gradients_kept": int(row["accumulation"]) > 1 or (row["strategy"] in _KEEPING and int(row["ranks"]) > 1),
        "lora_rank": int(row["lora_rank"] or 0),
        "lora_targets": tuple(row["lora_targets"].split()),
        "quantized": row["method"].startswith("qlora"),
        "packing": _PACKINGS.get(row["method"], "nf4"),
        "compute_bytes": int(row["compute_bytes"] or 2),
        "native_attention": row["native_attention"] == "yes" if row["native_attention"] else None,
        "compiled": row["compiled"] == "yes" if row["compiled"] else None,
    }
