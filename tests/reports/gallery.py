"""One page of every kind that raybench writes, from synthetic documents: what the browser tests and people look at.

``python -m tests.reports.gallery DIR`` writes them all.
"""

import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from diagnostics.engine import diagnose_paths
from diagnostics.output import render
from raybench.documents.loading import document_in
from raybench.documents.preflight import PreflightReport
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.checkpoint import CheckpointPoint
from raybench.documents.run.memory import MemoryPoint, Use
from raybench.documents.run.result import RunResult
from raybench.preflight.fabric.settings import FabricSettings
from raybench.preflight.report import Gathered, build_report
from raybench.reports.html import render_html, write_html
from tests.preflight.fabric.test_conduct import hosts as fabric_hosts
from tests.preflight.fabric.test_conduct import whole
from tests.preflight.hosts import facts, value
from tests.reports.sample import cluster, pairs, run_result, sweep
from tests.reports.study.test_study import network_content, scaling_content, strategy_content, sweep_content
from tests.reports.synthetic import synthetic_diagnosis, synthetic_result
from tests.reports.test_summary import benchmark, trained
from tests.timeline.cluster import sampled_run

CASES = Path(__file__).parent.parent / "diagnostics" / "cases"
MIB = 2**20


def pages(*, large: bool = True) -> Iterator[tuple[str, str]]:
    """(name, HTML) of every page; without ``large`` those of a few nodes."""
    for nodes in (1000,) if large else ():
        yield f"run-{nodes}x8", render_html(synthetic_result(nodes), synthetic_diagnosis(nodes))
    yield "run-10x8", render_html(synthetic_result(10), synthetic_diagnosis(10))
    yield "run-2", render_html(_two_ranks())
    yield "run-failed", render_html(run_result(sweep(points=(), status="failed", reason="no rank answered")))
    yield "train", render_html(training_run())
    yield "nodes-over-time", render_html(sampled_run())
    yield "memory", render_html(memory_run())
    yield "checkpoint", render_html(checkpoint_run())
    yield "preflight", render_html(_preflight())
    yield "fabric", _fabric()
    yield from ((name, render_html(make())) for name, make in STUDIES.items())
    yield "diagnose", render(diagnose_paths([next((CASES / "tcp-fallback").glob("*/input.log"))]), "html")


def _two_ranks() -> RunResult:
    found = cluster(2, 1, emulated=True)
    moved = {
        name: {"sent_bytes": count, "received_bytes": count} for name, count in (("lo", 111_429_954), ("eth0", 370))
    }
    ranks = {"pid": "9566", "niceness": "0", "omp_threads": "1", "device": "cpu", "env.NCCL_DEBUG": "INFO"}
    nodes = tuple(
        replace(node, facts={**node.facts, "traffic": moved, "ranks": {str(node.ranks[0]): ranks}})
        for node in found.nodes
    )
    shaky = sweep("broadcast", noise=0.5, shape=(3, 5, 20))
    return run_result(sweep(), sweep(in_place=True), shaky, pairs(2, per_node=1), cluster=replace(found, nodes=nodes))


def training_run() -> RunResult:
    """Four strategies over 200 steps, their losses falling, one rank slower than the others."""
    source = random.Random(7)
    looks = {"ddp": (0.21, 30.0), "fsdp": (0.26, 14.0), "lora rank 16, all linear layers of": (0.12, 11.0)}
    points = [trained(name, seconds, gib=gib, **_steps(seconds, source)) for name, (seconds, gib) in looks.items()]
    return run_result(*(benchmark(point, name=point.label.split()[0]) for point in points), cluster=cluster(2, 2))


def _steps(seconds: float, source: random.Random) -> dict[str, Any]:
    steps = [seconds * source.lognormvariate(0, 0.02) * (1.6 if step % 67 == 60 else 1.0) for step in range(200)]
    shares = {"data": 0.02, "forward": 0.30, "backward": 0.45, "gradient_sync": 0.15, "optimizer": 0.05}
    return {
        "launches": (tuple(steps),),
        "rank_step_seconds": tuple((step * source.uniform(0.86, 0.97), step * 1.01) for step in steps),
        "losses": tuple(10.8 / (1 + step / 40) ** 0.4 + source.gauss(0, 0.08) for step in range(200)),
        "phases": {name: share * seconds for name, share in shares.items()},
    }


def memory_run() -> RunResult:
    """A search whose largest batch does not fit, and one far below its limit."""

    def use(batch: int, limit: int, *, each: int, held: int) -> Use:
        activations = batch * each
        peak = 3 * held + held + activations + 40 * MIB
        fits = peak < limit
        parts = {"parameters": held, "gradients": held, "optimizer_state": 2 * held}
        estimate = {**parts, "activations": int(0.9 * activations), "logits": 20 * MIB, "allocated": int(0.97 * peak)}
        figures = {**parts, "activations": activations, "peak": peak, "reserved": int(1.02 * peak)}
        return Use(batch_size=batch, fits=fits, **(figures if fits else dict.fromkeys(figures, 0)), estimate=estimate)

    def point(label: str, limit: int, batches: tuple[int, ...], each: int, held: int) -> MemoryPoint:
        uses = tuple(use(batch, limit, each=each, held=held) for batch in batches)
        most = max(one.batch_size for one in uses if one.fits)
        return MemoryPoint(
            label=label, uses=uses, largest_batch=most, reached_most=False, limit_bytes=limit, emulated=False
        )

    gpu = point("memory gpt2 ddp", 80 * 2**30, (1, 2, 4, 8, 16, 24, 28, 30, 31, 32), 2200 * MIB, 2600 * MIB)
    cpu = point("memory tiny", 24 * 2**30, (1, 2, 4, 8), 4 * MIB, MIB)
    return run_result(*(benchmark(one, kind="memory", name="memory") for one in (gpu, cpu)), cluster=cluster(2, 1))


def checkpoint_run() -> RunResult:
    """Layouts and modes on a file system and an object store, one place that failed."""
    source = random.Random(5)

    def point(label: str, blocked: float, durable: float, load: float, **changes: Any) -> CheckpointPoint:
        def around(seconds: float) -> tuple[float, ...]:
            return tuple(seconds * source.lognormvariate(0, 0.1) for _ in range(5))

        return CheckpointPoint(
            label=label, blocked_seconds=around(blocked), durable_seconds=around(durable), load_seconds=around(load),
            writing_ranks=16, tensor_bytes=52_000_000_000, stored_bytes=52_100_000_000, verified=True, **changes,
        )  # fmt: skip

    points = (
        point("sharded, sync, /scratch/checkpoints", 9.1, 9.2, 7.5),
        point("sharded, async, /scratch/checkpoints", 1.3, 9.6, 7.4),
        point("whole, sync, s3://bucket-of-the-team/checkpoints/run", 61.0, 64.0, 58.0),
        CheckpointPoint(label="sharded, async, gs://nowhere", failed="403 from the store"),
    )
    made = BenchmarkResult(
        name="checkpoint", kind="checkpoint", parameters={"model": "gpt2"}, status="partial", workload=points
    )
    return run_result(made, cluster=cluster(2, 8), status="partial")


def _preflight() -> PreflightReport:
    def host(name: str, mtu: str) -> Gathered:
        sizes = {"net": {"status": "ok", "values": {"/sys/class/net/eth0/mtu": mtu}}}
        readings = {"addresses": value({"eth0": f"10.0.0.{name[-1]}"}), **sizes}
        return Gathered(host=name, facts=facts(readings, mtu=9000))

    named = [host(f"node-{number}", "1500" if number == 3 else "9000") for number in range(1, 9)]
    lost = Gathered(host="node-9", reason="ssh: connect to host node-9 port 22: No route to host", unreachable=True)
    return build_report([*named, lost], finished_at=1_800_000_000.0)


def _fabric() -> str:
    report = whole(fabric_hosts(10), FabricSettings(), lambda one, other, _: 95.0 if "h3" in {one, other} else 380.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fabric.html")
        write_html(document_in(report, "it"), path)
        return path.read_text()


STUDIES: dict[str, Callable[[], dict[str, Any]]] = {
    "study-network": network_content,
    "study-scaling": scaling_content,
    "study-strategy": strategy_content,
    "study-batch-size": lambda: sweep_content("batch-size"),
    "study-model-size": lambda: sweep_content("model-size"),
}


def main() -> None:
    """Write every page to the folder that is named."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages():
        (folder / f"{name}.html").write_text(text)
        print(folder / f"{name}.html")


if __name__ == "__main__":
    main()
