"""Steps that prove what is around the ranks: the machine, Ray's masking, the agent, raybench's own selftest."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import torch

from diagnostics.agent.sources.base import SourceUnavailableError
from diagnostics.agent.sources.gpus import GpuErrors, Gpus, load_nvml
from raybench.benchmarks.base import RankContext
from raybench.metadata import gpu_facts
from tests.gpu.record import Comparison
from tests.gpu.step import Bench, NotRunError, Outcome, StepFailedError
from tests.measurements.ray_head import ray_head

_RAYBENCH = [sys.executable, "-P", "-c", "from raybench.cli import main; main()"]
_LOAD_SECONDS = 3.0


def machine(bench: Bench) -> Outcome:
    """Whether torch has code for this GPU, and its own NCCL; what there is of both is in the record."""
    told = bench.on_ranks(_device_of)[0]
    return Outcome(
        figures=told,
        comparisons=(
            Comparison(what="ranks that computed", value=told["sum"], least=1024, most=1024),
            bench.on_gpu_only("torch has code for the GPU", float(told["has_code"]), 1, 1),
            bench.on_gpu_only("NCCL is at least 2.18", told["nccl_number"], 21800, None),
        ),
    )


def _device_of(context: RankContext) -> dict[str, Any]:
    total = float(torch.ones(1024, device=context.device).sum().item())
    if context.device.type != "cuda":
        return {"sum": total, "has_code": False, "nccl_number": 0, "torch": str(torch.__version__)}
    properties = torch.cuda.get_device_properties(context.device)
    major, minor, patch = (*torch.cuda.nccl.version(), 0)[:3]
    return {
        "sum": total,
        "torch": str(torch.__version__),
        "cuda": str(torch.version.cuda),
        "nccl": f"{major}.{minor}.{patch}",
        "nccl_number": major * 10000 + minor * 100 + patch,
        "name": properties.name,
        "capability": [properties.major, properties.minor],
        "memory_bytes": properties.total_memory,
        "arch_list": torch.cuda.get_arch_list(),
        "has_code": has_code(torch.cuda.get_arch_list(), properties.major, properties.minor),
    }


def has_code(arch_list: list[str], major: int, minor: int) -> bool:
    """Whether a build with ``sm_80 sm_90 compute_120`` runs on a GPU of that capability.

    Machine code runs on its own major version from its minor on; intermediate code (compute_) on anything newer.
    """
    for name in arch_list:
        kind, _, digits = name.partition("_")
        number = int("".join(one for one in digits if one.isdigit()) or 0)
        own = divmod(number, 10)
        if (kind == "sm" and own[0] == major and own[1] <= minor) or (kind == "compute" and own <= (major, minor)):
            return True
    return False


def selftest(bench: Bench) -> Outcome:
    """``raybench selftest --need-gpu``, as a user runs it; in a dry run its two checks that start no ranks."""
    words = ["--gpu"] if bench.on_gpu else ["--only", "python-packages,torch-import"]
    code, document = _raybench(bench, ["selftest", *words, "--json", "--output-dir", str(bench.folder / "runs")], {})
    _note_devices(bench, document["ranks"])
    if not bench.on_gpu:
        bench.note("cpu", None)  # two checks without ranks
    results = {one["id"]: one["result"] for one in document["checks"]}
    bad = [one["id"] for one in document["checks"] if one["result"] in ("failed", "unknown")]
    return Outcome(
        figures={
            "exit_code": code,
            "verdict": document["verdict"],
            "results": results,
            "seen": {one["id"]: one["seen"] for one in document["checks"]},
        },
        comparisons=(
            Comparison(what="exit code", value=code, most=0),
            Comparison(what="checks failed or unknown", value=len(bad), most=0),
        ),
    )


def ray_masking(bench: Bench) -> Outcome:
    """A running Ray cluster, one node actor that Ray grants the GPU: its rank sees every GPU, whatever Ray hid."""
    with ray_head(cpus=2, gpus=len(gpu_facts()) if bench.on_gpu else 0) as head:
        return _all_reduce(bench, nodes=1, address=head.address, variables=head.variables)


def shared_gpu(bench: Bench) -> Outcome:
    """Two nodes that raybench embeds, on one GPU."""
    return _all_reduce(bench, nodes=2, address="local", variables={})


def _all_reduce(bench: Bench, *, nodes: int, address: str, variables: Mapping[str, str]) -> Outcome:
    words = ["run", "--nodes", str(nodes), "--address", address, "--suite", "all_reduce", "--sizes", "1M"]
    words += [
        "--iters",
        "5",
        "--blocks",
        "2",
        "--no-agent",
        "--output-dir",
        str(bench.folder / "runs"),
        "--json",
        "--quiet",
    ]
    _, result = _raybench(bench, words, variables)
    _note_devices(bench, result)
    ranks = [one for node in result["cluster"]["nodes"] for one in node["facts"]["ranks"].values()]
    seen = [int(one["visible_gpus"]) for one in ranks if "visible_gpus" in one]
    there = len(gpu_facts())
    masked = [one["rule"] for one in result["findings"] if one["rule"] == "devices-masked"]
    points = [point for one in result["benchmarks"] for point in one["points"]]
    return Outcome(
        figures={
            "status": result["status"],
            "visible_gpus": seen,
            "gpus": there,
            "backend": result["cluster"]["backend"],
        },
        comparisons=(
            Comparison(what="run complete", value=float(result["status"] == "complete"), least=1),
            Comparison(what="points verified", value=sum(point["verified"] for point in points), least=1),
            Comparison(what="devices-masked findings", value=len(masked), most=0),
            bench.on_gpu_only("GPUs that the ranks see over those there", min(seen, default=0) / max(there, 1), 1, 1),
        ),
    )


def _raybench(bench: Bench, words: list[str], variables: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
    """Exit code and document of a command. Raises StepFailedError where it printed none."""
    done = subprocess.run(
        [*_RAYBENCH, *words],
        capture_output=True,
        text=True,
        timeout=bench.seconds,
        check=False,
        env={**os.environ, **variables},
    )
    (bench.folder / f"{words[0]}.log").write_text(f"{done.stdout}\n{done.stderr}")
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError as error:
        tail = (done.stderr or done.stdout).strip()[-400:]
        raise StepFailedError(f"raybench {words[0]} ended with {done.returncode} and no document: {tail}") from error


def _note_devices(bench: Bench, document: Any) -> None:
    """What ranks say of their device, wherever in a document they do."""
    if isinstance(document, dict):
        if isinstance(document.get("device"), str):
            bench.note(document["device"], document.get("gpu_uuid"))
        document = list(document.values())
    if isinstance(document, list):
        for part in document:
            _note_devices(bench, part)


def agent_samples(bench: Bench) -> Outcome:
    """What the agent reads of a GPU by NVML while a rank keeps it busy."""
    busy: dict[str, float] | str = bench.on_ranks(_under_load)[0]
    if isinstance(busy, str):
        raise NotRunError(busy)
    counted = GpuErrors(load_nvml()).read().values  # not before the fork: NVML belongs to the process that started it
    power = max((value for name, value in busy.items() if name.endswith("power_watts")), default=0.0)
    utilization = max((value for name, value in busy.items() if name.endswith("utilization_percent")), default=0.0)
    return Outcome(
        figures={"under_load": busy, "errors": counted},
        comparisons=(
            bench.on_gpu_only("utilization under load, %", utilization, 50, 100),
            bench.on_gpu_only("power under load, W", power, 20, 2000),
            bench.on_gpu_only("readings", len(busy), 6, None),
        ),
    )


def _under_load(context: RankContext) -> dict[str, float] | str:
    """What the agent samples, or why it cannot."""
    try:
        sampled = Gpus(load_nvml())
    except SourceUnavailableError as error:
        return str(error)
    factor = torch.full((4096, 4096), 1 / 4096, device=context.device)
    until = time.monotonic() + _LOAD_SECONDS
    while time.monotonic() < until:
        torch.mm(factor, factor)
        if context.device.type == "cuda":
            torch.cuda.synchronize(context.device)
    return dict(sampled.read().values)
