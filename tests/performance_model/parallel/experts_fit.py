"""How far step times of models with experts are from the fit, and the factors of their class.

    python -m tests.performance_model.parallel.experts_fit

Of ``published/experts.csv`` and of the other tables' rows with experts. Nothing of the fit is from the former; each
source, then each program, is left out in turn, its rows held against factors of all others.
"""

import csv
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import mean, median
from typing import Any

from raybench.performance_model.estimate.answer import Estimate
from raybench.performance_model.estimate.estimate import estimate
from raybench.performance_model.request.request import EstimateRequest
from raybench.performance_model.step.efficiency import CALIBRATION
from raybench.performance_model.step.spreads import SPREADS, Spread
from raybench.services.estimating.options import EstimateOptions
from raybench.services.estimating.request import estimate_request
from tests.performance_model.leave_one_out import Outcome, outcome
from tests.performance_model.published_run import FOLDER, PublishedRun
from tests.performance_model.published_runs import all_runs
from tests.performance_model.spread_fit import Need, covering, need

CLASS = "experts"
with (FOLDER / "experts.csv").open() as _file:
    ROWS = list(csv.DictReader(_file))
_SAID = {"yes": True, "no": False}
# Models of no config.json that raybench has, by those of their family: Grok-1 as its launcher has it (NVIDIA's
# dgxc-benchmarking, grok1/grok1_314b.yaml), Moonlight with DeepSeek-V2-Lite's shape and a vocabulary of its own.
_SIZES: dict[str, tuple[str, dict[str, int]]] = {
    "grok-1": (
        "mixtral-8x22b",
        {"layers": 64, "hidden": 6144, "heads": 48, "kv_heads": 8, "feedforward": 32768, "vocabulary": 131072},
    ),
    "kimi-k2": (str(Path(__file__).parent / "kimi-k2.json"), {}),
    "moonlight-16b": ("deepseek-ai/DeepSeek-V2-Lite", {"vocabulary": 163840}),
}
# The same program, by its makers and by AWS.
_MEGATRON = ("Megatron-Bridge", "Megatron-MoE-ModelZoo", "awsome-distributed-ai")


def asked(row: Mapping[str, str]) -> EstimateRequest:
    """A row of ``experts.csv`` as the request that it is."""
    cut: dict[str, Any] = {f"{name}_parallel": int(row[name]) for name in ("tensor", "pipeline", "expert")}
    modules = row["recompute"] if row["recompute"] not in ("full", "none", "selective") else None
    model, sizes = _SIZES.get(row["model"], (row["model"], {}))
    return estimate_request(
        EstimateOptions(
            model=model,
            **sizes,
            **cut,
            context_parallel=int(row["context"] or 1),
            mtp_layers=int(row["mtp"]) if row["mtp"] else None,
            expert_tensor_parallel=int(row["expert_tensor"]) if row["expert_tensor"] else None,
            virtual_stages=int(row["virtual_stages"]),
            gpu=row["gpu"],
            nics=int(row["nics"]),
            nic_gbit=400,
            gpus_per_node=int(row["ranks_per_node"]),
            world_size=int(row["world_size"]),
            sequence_length=int(row["sequence_length"]),
            strategy=row["strategy"],
            batch_size=int(row["batch_size"]),
            accumulation=int(row["accumulation"]),
            dtype=row["dtype"],
            reduce_dtype=row["reduce_dtype"] or None,
            activation_checkpointing=row["recompute"] == "full",
            selective_checkpointing=row["recompute"] == "selective",
            recompute_modules=modules and modules.replace(" ", ","),
            kernels=row["kernels"],
            loss="fused",
            compile=_SAID.get(row["compiled"]),
            native_attention=_SAID.get(row["native_attention"]),
            token_dispatcher=row["dispatcher"] or None,  # type: ignore[arg-type]  # as the option has it
            overlap_experts=_SAID.get(row["overlapped"]),
            force_load_balancing=_SAID.get(row["balanced"]),
            cuda_graphs=_SAID.get(row["captured"]),
        )
    )


def estimated(row: Mapping[str, str]) -> Estimate:
    """The estimate of a row."""
    return estimate(asked(row))


@cache
def experts_runs() -> tuple[PublishedRun, ...]:
    """Every published step time of a model with experts."""
    own = (
        PublishedRun(
            name=f"{row['model']} {row['gpu']} {row['world_size']}",
            source=_document(row["source"]),
            request=(request := asked(row)),
            parameters=request.model.parameters,
            tokens_per_second=float(row["tokens_per_second_per_gpu"]) * request.layout.world_size,
        )
        for row in ROWS
    )
    return (*own, *(run for run in all_runs() if run.request.model.experts and run.tokens_per_second))


def _document(source: str) -> str:
    """A source is a document: one archive has the releases of Megatron-Bridge."""
    return next((name for name in ("Megatron-Bridge", "dgxc-benchmarking") if source.startswith(f"{name} 2")), source)


def program_of(source: str) -> str:
    """Sources of one program count as one where programs are left out."""
    return "Megatron-Bridge" if source.startswith(_MEGATRON) else source


def needs() -> list[Need]:
    """Of each row what would have it within the bounds."""
    return [one for one in (need(run, CALIBRATION) for run in experts_runs()) if one is not None]


def calibrated_experts(rows: Sequence[Need]) -> Spread:
    """The factors that hold as many of the rows as those of the other classes do."""
    return Spread(slow=covering(rows, "slow"), fast=covering(rows, "fast"))


def left_out(group: Callable[[str], str]) -> list[Outcome]:
    """Every row, by the factors of all other sources' rows; ``group``: which of them are left out together."""
    rows, runs = needs(), experts_runs()
    found = []
    for name in sorted({group(run.source) for run in runs}):
        spreads = {**SPREADS, CLASS: calibrated_experts([one for one in rows if group(one.source) != name])}
        found += [outcome(run, CALIBRATION, spreads) for run in runs if group(run.source) == name]
    return found


def _line(name: str, outcomes: Sequence[Outcome]) -> str:
    sources = sorted({one.source for one in outcomes})
    each = [mean(bool(one.inside) for one in outcomes if one.source == source) for source in sources]
    errors = [abs(math.log(one.ratio or 1.0)) for one in outcomes]
    return (
        f"{name}: {sum(bool(one.inside) for one in outcomes)} of {len(outcomes)} step times inside the bounds, "
        f"{mean(each):.0%} by {len(sources)} sources; median width {median(one.width or 0.0 for one in outcomes):.2f}; "
        f"the middle off by {math.expm1(median(errors)):.0%} in the median"
    )


def main() -> None:
    """Print the factors, and how those of other sources do."""
    found = calibrated_experts(needs())
    everything = [outcome(run, CALIBRATION, SPREADS) for run in experts_runs()]
    lines = [
        f"slow {found.slow:.3f}, fast {found.fast:.3f}",
        _line("as they are", everything),
        _line("each source left out", left_out(str)),
        _line("each program left out", left_out(program_of)),
    ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
