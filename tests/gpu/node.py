"""The active tests of nodes, as ``raybench preflight --level 2`` does them on a host, on this GPU."""

import json
import subprocess
import sys
from typing import Any

from raybench.benchmarks.node_tests.conduct import TESTS
from raybench.hardware.gpus import find_gpu
from raybench.metadata import gpu_facts
from tests.gpu.record import Comparison
from tests.gpu.step import Bench, Outcome, StepFailedError

_CODE = "import json, os, sys; from raybench.benchmarks.node_tests.entry import main; "
_CODE += "main(json.loads(sys.argv[1]), float(sys.argv[2]), os.getppid())"
_SMALL = {"samples": 3, "block_seconds": 0.02, "cpu_widths": [128, 256], "memory_mib": 16, "disk_mib": 4}


def node_tests(bench: Bench) -> Outcome:
    """All tests of level 3 in a process of their own, with a burn of seconds."""
    plan = {"tests": [test.name for test in TESTS], "seconds": bench.seconds, "burn_seconds": 5.0}
    figures = _figures(plan | bench.sized({}, _SMALL), bench.seconds)
    for fact in gpu_facts() if bench.on_gpu else ():
        bench.note("cuda", fact.get("uuid"))
    if not bench.on_gpu:
        bench.note("cpu", None)
    compared = [one for one in figures if one.get("checked")]
    bad = [one for one in figures if one["status"] in {"failed", "broken"}]
    model = next((one["model"] for one in figures if one["device"] == "gpu0"), "")
    return Outcome(
        figures={"figures": figures},
        comparisons=(
            Comparison(what="figures whose elements were compared", value=len(compared), least=4),
            Comparison(what="wrong elements", value=sum(one.get("wrong", 0) for one in figures), most=0),
            Comparison(what="tests that failed or broke", value=len(bad), most=0),
            bench.on_gpu_only("bf16 over the peak of the table", _bf16_share(figures, model), 0.4, 1.0),
        ),
    )


def _figures(plan: dict[str, Any], seconds: float) -> list[dict[str, Any]]:
    command = [sys.executable, "-c", _CODE, json.dumps(plan), str(seconds)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=seconds + 30, start_new_session=True
    )
    if done.returncode != 0:
        raise StepFailedError(f"the tests ended with status {done.returncode}: {done.stderr[-500:]}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [line["figure"] for line in lines if "figure" in line]


def _bf16_share(figures: list[dict[str, Any]], model: str) -> float | None:
    gpu = find_gpu(model)
    samples = [one.get("samples") for one in figures if (one["test"], one.get("case")) == ("gemm-speed", "bf16")]
    peak = gpu.peak_tflops("bf16") if gpu else None
    return max(samples[0]) / peak if peak and samples and samples[0] else None
