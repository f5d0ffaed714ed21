"""Published training runs in raybench's own columns (``published/others.csv``), as the estimate's requests."""

import csv
from collections.abc import Iterator
from pathlib import Path

from raybench.hardware.gpus import Gpu, gpu_for
from raybench.performance_model.layout import Layout, Network
from raybench.performance_model.models.transformer import Transformer
from raybench.performance_model.request.request import EstimateRequest
from tests.performance_model.published_models import published_models
from tests.performance_model.published_run import FOLDER, PublishedRun
from tests.performance_model.published_setup import setup_of
from tests.performance_model.published_sources import is_of_auto_buckets

_NVLINK_SHARE, _NIC_SHARE, _PCIE_GB_PER_S = 0.80, 0.92, 25.0
_CUTS = ("tensor", "pipeline", "virtual_stages", "context", "expert")
# Of what no column has: experts over a packed base are of 2024, when they were linear layers, or above.
_SAID_OF_ALL = frozenset({"packs_experts"})


def other_runs() -> Iterator[PublishedRun]:
    """All rows, in order: of models that are whole, that may be cut, of memory alone, and as their sources ask them."""
    for name in ("others.csv", "cut.csv", "memory.csv", "unseen.csv", "blind_memory.csv"):
        yield from runs_of(FOLDER / name)


def runs_of(table: Path) -> Iterator[PublishedRun]:
    """The rows of a table."""
    models = published_models()
    with table.open() as file:
        for row in csv.DictReader(file):
            yield _run(row, models[row["model"]])


def _run(row: dict[str, str], model: Transformer) -> PublishedRun:
    gpu = gpu_for(row["gpu"])
    ranks, rate = int(row["ranks"]), row["tokens_per_second_per_gpu"]
    memory, device = row["memory_gib"], row["device_gib"]
    return PublishedRun(
        name=" ".join(row[name] for name in ("model", "gpu", "ranks", "method", "sequence_length", "batch_size")),
        source=row["source"],
        request=EstimateRequest(
            model=model,
            setup=setup_of(row),
            layout=Layout(
                world_size=ranks,
                ranks_per_node=min(ranks, int(row["ranks_per_node"])),
                **{name: int(row.get(name) or 1) for name in _CUTS},
            ),
            network=_network(gpu, row["fabric_gbit"]),
            dtype=row["dtype"] or "bf16",
            accumulation=int(row["accumulation"]),
            reduce_bytes=int(row["reduce_bytes"]),
            gpu=gpu,
            memory_bytes=int(float(device) * 2**30) if device else gpu.memory_bytes,
            said=_SAID_OF_ALL | ({"default_bucket"} if is_of_auto_buckets(row["source"]) else frozenset()),
            kernels_known=bool(row["kernels"]),
            streams_known=bool(row["kernels"]),
            loss_known=bool(row["loss"]),
            power_watts=float(row["power_watts"]) if row["power_watts"] else None,
        ),
        parameters=model.parameters,
        tokens_per_second=float(rate) * ranks if rate else None,
        memory_bytes=float(memory) * 2**30 if memory else None,
        memory_is=row["memory_is"],
        fits=row["fits"] == "yes" if row["fits"] else None,
    )


def _network(gpu: Gpu, fabric_gbit: str) -> Network:
    within = gpu.board_gb_per_s or _PCIE_GB_PER_S
    fabric = _NIC_SHARE * float(fabric_gbit) / 8 if fabric_gbit else None
    return Network(node_gb_per_s=_NVLINK_SHARE * within, fabric_gb_per_s=fabric)
