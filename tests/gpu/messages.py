"""Steps that prove messages: every collective over NCCL, its log, its clock, and nccl-tests beside it."""

import math
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from raybench import diagnose
from raybench.benchmarks.base import RankContext
from raybench.benchmarks.messages.operations import OPERATIONS
from raybench.benchmarks.registry import specs_of
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.standalone import result_of
from raybench.benchmarks.timing import synchronize, timed_block
from raybench.benchmarks.workload import Request
from tests.gpu.record import Comparison
from tests.gpu.step import Bench, NotRunError, Outcome

_RECORDED_LOG = Path(__file__).parents[1] / "diagnostics/cases/tcp-fallback/one_rank_sees_a_part/input.log"
_LARGE = (256 * 2**20, 2**30)  # smaller ones take a rank alone less time than a call from Python: 64 MiB 50 us


def plan(
    suite: str, sizes: tuple[int, ...], *, dtypes: tuple[str, ...] = ("float32",), **options: Any
) -> tuple[BenchmarkSpec, ...]:
    """Benchmarks of messages, as ``raybench run`` plans them."""
    template = BenchmarkSpec(name="", kind="collective", sizes=sizes, **options)
    return specs_of(suite, Request(template=template, dtypes=dtypes, options={}))


def measured(bench: Bench, specs: Sequence[BenchmarkSpec], ranks: int) -> list[dict[str, Any]]:
    """The benchmarks of a result, as raybench makes them of what the ranks said."""
    heard = bench.launch(specs, ranks)
    found: list[dict[str, Any]] = result_of([event for events in heard for event in events], specs)["benchmarks"]
    return found


def collectives(bench: Bench, *, ranks: int) -> Outcome:
    """Every operation on so many ranks of one device, each size verified element by element."""
    shared = (1024, 2**20, 8 * 2**20)  # a loopback device, and kernels that take turns: slow
    sizes = bench.sized(shared if ranks > 1 else (1024, 2**20, 256 * 2**20), (1024, 65536), (1024,))
    repeats = (
        {"warmup": 2, "iterations": 5, "blocks": 3}
        if bench.on_gpu and ranks == 1
        else {"warmup": 1, "iterations": 2, "blocks": 1}
    )
    dtypes = ("float32",) if bench.short else ("float32", "bfloat16")
    found = measured(bench, plan("collectives", sizes, dtypes=dtypes, **repeats), ranks)
    points = [point for one in found for point in one["points"]]
    done = {one["name"] for one in found if one["status"] == "complete"}
    least = len(OPERATIONS) - (ranks == 1)  # a matrix of pairs needs two ranks
    return Outcome(
        figures={"busbw_gb_per_s": _bandwidths(found), "skipped": _skipped(found)},
        comparisons=(
            Comparison(what="operations complete", value=len(done), least=least),
            Comparison(what="benchmarks failed", value=sum(one["status"] == "failed" for one in found), most=0),
            Comparison(what="wrong elements", value=sum(point["wrong_elements"] for point in points), most=0),
            Comparison(what="points unverified", value=sum(not point["verified"] for point in points), most=0),
        ),
    )


def _bandwidths(found: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    return {
        f"{one['name']} {one['parameters']['dtype']}{' in place' if one['parameters'].get('in_place') else ''}": {
            str(point["message_bytes"]): point["busbw_gb_per_s"] for point in one["points"]
        }
        for one in found
        if one["points"] and one["name"] != "p2p_matrix"
    }


def _skipped(found: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {f"{one['name']} {one['parameters'].get('dtype')}": one["reason"] for one in found if one["reason"]}


def nccl_tests(bench: Bench) -> Outcome:
    """all_gather of one rank by nccl-tests, built here, and by raybench: more ranks of nccl-tests would need MPI.

    Out of place: in place NCCL has nothing to do for one rank, and torch's all_reduce is in place.
    """
    if bench.nccl_tests is None or not (bench.nccl_tests / "src").is_dir():
        raise NotRunError("the sources of nccl-tests are not here; name their folder with --nccl-tests")
    theirs = _their_bandwidths(_built(bench), bench.seconds)
    specs = plan("all_gather", _LARGE, warmup=5, iterations=20, blocks=5)
    outside = [one for one in measured(bench, specs, 1) if not one["parameters"].get("in_place")]
    ours = {point["message_bytes"]: point["algbw_gb_per_s"] for point in outside[0]["points"]}
    return Outcome(
        figures={"algbw_gb_per_s": {"raybench": ours, "nccl-tests": theirs}},
        comparisons=[
            bench.on_gpu_only(f"algbw over nccl-tests' at {size}", ours[size] / theirs[size], 0.9, 1.1)
            for size in _LARGE
        ],
    )


def _built(bench: Bench) -> Path:
    """all_gather_perf, against the NCCL that torch brought."""
    assert bench.nccl_tests is not None
    found = find_spec("nvidia.nccl")
    if shutil.which("nvcc") is None or found is None or not found.submodule_search_locations:
        raise NotRunError("nccl-tests cannot be built: there is no nvcc, or no nvidia-nccl package with nccl.h")
    home, own = bench.folder / "nccl", Path(next(iter(found.submodule_search_locations)))
    (home / "lib").mkdir(parents=True)
    (home / "include").symlink_to(own / "include")
    for name in ("libnccl.so", "libnccl.so.2"):
        (home / "lib" / name).symlink_to(own / "lib/libnccl.so.2")
    source = bench.folder / "nccl-tests"
    shutil.copytree(bench.nccl_tests, source)
    major, minor = _capability()
    gencode = f"NVCC_GENCODE=-gencode=arch=compute_{major}{minor},code=sm_{major}{minor}"
    cuda = Path(shutil.which("nvcc") or "").resolve().parents[1]
    build = source / "build"
    program = build / "all_gather_perf"
    make = ["make", f"-j{os.cpu_count()}", "MPI=0", f"NCCL_HOME={home}", f"CUDA_HOME={cuda}", gencode]
    make += [f"BUILDDIR={build}", str(program)]  # this one: all eleven take half a minute
    built = subprocess.run(make, cwd=source / "src", capture_output=True, text=True, check=False)
    if not program.exists():
        raise NotRunError(f"nccl-tests did not build: {(built.stderr or built.stdout).strip()[-300:]}")
    os.environ["LD_LIBRARY_PATH"] = f"{home / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    return program


def _capability() -> tuple[int, int]:
    """Asked in a process of its own: this one forks ranks, and must not start CUDA."""
    query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0]
    major, _, minor = answer.partition(".")
    return int(major), int(minor)


def _their_bandwidths(program: Path, seconds: float) -> dict[int, float]:
    """Out of place, in GB/s, by message size."""
    command = [str(program), "-b", str(_LARGE[0]), "-e", str(_LARGE[-1]), "-f", "4", "-g", "1", "-n", "20"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=True)
    return bandwidths_of(answer.stdout)


def bandwidths_of(text: str) -> dict[int, float]:
    """algbw out of place by message size, from the table that nccl-tests prints.

    ``67108864    16777216     float     sum      -1    42.10  1594.02    0.00      0    41.90  1601.6    0.00      0``
    """
    rows = (line.split() for line in text.splitlines() if line.strip()[:1].isdigit())
    return {int(row[0]): float(row[6]) for row in rows if len(row) >= 9}


def nccl_logs(bench: Bench) -> Outcome:
    """What raybench diagnose says of the ranks' own logs; in a dry run, which has none, of a recorded one."""
    measured(bench, plan("all_reduce", (2**20,), iterations=2, blocks=1), 2)
    logs = bench.folder if bench.on_gpu else _RECORDED_LOG
    found = diagnose(logs)
    rules = [f"{one.severity} {one.rule}: {one.summary}" for one in found.findings]
    critical = [one for one in found.findings if one.severity == "critical"]
    return Outcome(
        figures={
            "network": found.network,
            "nccl": list(found.nccl_versions),
            "verdict": found.verdict,
            "findings": rules,
            "logs": "the ranks' own" if bench.on_gpu else "recorded: gloo writes none",
        },
        comparisons=(
            Comparison(what="lines of NCCL read", value=found.lines.nccl, least=1),
            bench.on_gpu_only("ranks seen in the logs", found.world_size, 2, 2),
            bench.on_gpu_only("network is sockets", float(found.network == "socket"), 1, 1),
            bench.on_gpu_only("critical findings", len(critical), None, 0),
        ),
    )


def event_clock(bench: Bench) -> Outcome:
    """A block of operations by events on the device, and by the wall clock around it."""
    blocks = bench.on_ranks(_events_and_wall, bench.sized(4096, 192), bench.sized(200, 50, 20))[0]
    ratios = [events / wall for events, wall in blocks]
    middle = sorted(ratios)[len(ratios) // 2]
    return Outcome(
        figures={"events_over_wall": ratios, "block_seconds": [wall for _, wall in blocks]},
        comparisons=[bench.on_gpu_only("events over wall clock", middle, 0.98, 1.002)],
    )


def _events_and_wall(context: RankContext, width: int, products: int) -> list[tuple[float, float]]:
    factor = torch.full((width, width), 1 / width, device=context.device)
    product = torch.empty_like(factor)
    work = partial(torch.mm, factor, factor, out=product)
    timed_block(context, work, 5)
    blocks = []
    for _ in range(5):
        synchronize(context)
        begin = time.perf_counter()
        stamps = timed_block(context, work, products)
        blocks.append((stamps[-1], time.perf_counter() - begin))
    return [one for one in blocks if math.isfinite(one[0])]
