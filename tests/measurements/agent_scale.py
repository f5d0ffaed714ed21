"""What the samples of large runs cost: kept while they come, then loaded, joined, judged and shown, by number of nodes.

``python -m tests.measurements.agent_scale --nodes 10,100,300,1000``

Synthetic: 600 s at one reading a second of 8 GPUs, 8 ports and the host (284 series a node; one node in 100 has port
errors). Keeping is what the command pays beside a run of 600 s, in processor seconds over 600; whoever shows the run
pays the rest. Each part is a process of its own, so that its peak resident memory is its own.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.measurements.table import print_table, write_json

SECONDS = 600
MOST_SECONDS, MOST_MIB = 60.0, 1024.0
_TEMPLATES = 5  # nodes whose readings differ; the others repeat them
_RESULT, _SAMPLES, _REPORT = "result.json", "node_samples.json", "report.html"


def _counter(grows: Callable[[], float]) -> Iterator[float]:
    total = 0.0
    for _ in range(SECONDS):
        total += grows()
        yield round(total, 2)


def _series(source: random.Random, *, faulty: bool) -> dict[str, list[float]]:
    """What a node of 8 GPUs and 8 ports reads, second by second."""
    found: dict[str, Iterator[float]] = {}
    for port in range(8):
        name = f"port/mlx5_{port}:1/"
        for metric in ("sent_bytes", "received_bytes"):
            found[name + metric] = _counter(lambda: source.randrange(20 * 10**9, 50 * 10**9))
        errors = ("symbol_errors", "link_downed", "link_recoveries", "receive_errors", "integrity_errors")
        others = ("buffer_overruns", "send_discards", "ack_timeouts", "out_of_sequence", "receiver_not_ready")
        rest = ("retransmitted_packets", "cnp_sent", "cnp_handled", "up", "rate_gbit_per_s", "send_wait_ticks")
        for metric in (*errors, *others, *rest):
            grows = 40 if faulty and metric == "symbol_errors" and port == 3 else 0
            found[name + metric] = _counter(lambda grows=grows: grows)  # type: ignore[misc]
    for gpu in range(8):
        name = f"gpu/{gpu}/"
        found[name + "utilization_percent"] = (source.randint(85, 100) for _ in range(SECONDS))
        found[name + "power_watts"] = (round(source.gauss(600, 20), 3) for _ in range(SECONDS))
        found[name + "temperature_celsius"] = (source.randint(60, 64) for _ in range(SECONDS))
        found[name + "sm_clock_mhz"] = (source.choice((1980, 1965, 1950)) for _ in range(SECONDS))
        found[name + "memory_used_bytes"] = ((40960 + source.randrange(4)) * 2**21 for _ in range(SECONDS))
        for metric in (
            *("throttle_thermal", "throttle_power_brake", "throttle_hardware", "throttle_power_cap"),
            *("ecc_corrected_errors", "ecc_uncorrected_errors", "nvlink_errors", "pcie_replays"),
        ):
            found[name + metric] = _counter(lambda: 0)
    found["host/cpu/cores"] = iter([128] * SECONDS)
    for metric in ("busy_seconds", "iowait_seconds", "stolen_seconds"):
        found[f"host/cpu/{metric}"] = _counter(lambda: source.uniform(0, 30))
    for metric in ("in_bytes", "out_bytes"):
        found[f"host/swap/{metric}"] = _counter(lambda: 0)
    found["host/memory/available_bytes"] = (source.randrange(900, 920) * 2**30 for _ in range(SECONDS))
    for rank in range(8):
        found[f"process/{4000 + rank}/cpu_seconds"] = _counter(lambda: source.uniform(0.9, 1))
        found[f"process/{4000 + rank}/resident_bytes"] = (source.randrange(9, 10) * 2**30 for _ in range(SECONDS))
    for index in range(20):
        found[f"disk/nvme{index}n1/written_bytes"] = _counter(lambda: source.randrange(10**6))
    return {name: list(values) for name, values in found.items()}


def _keep(nodes: int, folder: Path) -> dict[str, Any]:
    """The stream of all nodes into the document, as the command does it beside a run."""
    from diagnostics.agent.messages import Clock, Reading
    from raybench.timeline.keeper import SampleKeeper

    source = random.Random(1)
    templates = [_series(source, faulty=number == 0) for number in range(min(_TEMPLATES, nodes))]
    readings = [
        [dict(zip(one, values, strict=True)) for values in zip(*one.values(), strict=True)] for one in templates
    ]
    begin = _peak_mib()
    keeper = SampleKeeper(run_id="scale", started_at="2026-11-23T02:00:00+00:00", start_seconds=0.0)
    names = [f"node-{number}" for number in range(nodes)]
    for name in names:
        keeper.machine(name, (name,))
        keeper.take(name, Clock(wall_seconds=1.8e9, monotonic_seconds=0.0, host=name, interval_seconds=1.0), 0.0)
    begun = time.process_time()  # what a busy machine does not change
    for second in range(SECONDS):
        for number, name in enumerate(names):
            values = readings[number % 100 if number % 100 < len(readings) else 1 + number % (len(readings) - 1)][
                second
            ]
            keeper.take(name, Reading(monotonic_seconds=float(second), source="all", values=values), second + 0.001)
    fed = time.process_time() - begun
    samples = keeper.samples()
    assert samples is not None
    text = json.dumps(samples.to_json())
    (folder / _SAMPLES).write_text(text)
    _write_result(nodes, folder)
    return {
        "keep_seconds": fed,
        "write_seconds": time.process_time() - begun - fed,
        "keep_mib": _peak_mib(),
        "before_mib": begin,
        "bytes": len(text),
        "merged": max(node.merged for node in samples.nodes),
        "series": len(templates[0]),
    }


def _write_result(nodes: int, folder: Path) -> None:
    from tests.timeline.runs import collective, run_of, training

    run = run_of(collective((0.1, 0.1, 0.1)), training([0.5] * 900, begin=100.0), nodes=nodes, per_node=8)
    (folder / _RESULT).write_text(json.dumps(run.to_json()))


def _show(folder: Path) -> dict[str, Any]:
    """Load, join and judge, show: what `raybench show` and the end of a run do."""
    from msgspec.structs import replace

    import raybench
    from raybench.services.show import kept_run
    from raybench.timeline.judging import with_samples

    begun = time.perf_counter()
    result = kept_run(folder).result
    loaded = time.perf_counter()
    assert result.node_samples is not None
    joined = with_samples(replace(result, recorded_verdict=None), result.node_samples)
    judged = time.perf_counter()
    (folder / _REPORT).write_text(raybench.html(joined))
    shown = time.perf_counter()
    return {
        "load_seconds": loaded - begun,
        "join_seconds": judged - loaded,
        "show_seconds": shown - judged,
        "show_mib": _peak_mib(),
        "findings": len(joined.findings),
        "report_bytes": (folder / _REPORT).stat().st_size,
    }


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _child(part: str, nodes: int, folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.measurements.agent_scale", "--child", part, "--nodes", str(nodes)]
    done = subprocess.run([*command, "--folder", str(folder)], stdout=subprocess.PIPE, check=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def measure(nodes: int) -> dict[str, Any]:
    """Both parts, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return {"nodes": nodes} | _child("keep", nodes, Path(folder)) | _child("show", nodes, Path(folder))


def _row(one: dict[str, Any]) -> list[str]:
    total = one["load_seconds"] + one["join_seconds"] + one["show_seconds"]
    return [
        str(one["nodes"]),
        *(f"{one[name]:.1f}" for name in ("load_seconds", "join_seconds", "show_seconds")),
        f"{total:.1f}",
        f"{one['show_mib']:.0f}",
        f"{one['keep_seconds'] / SECONDS:.1%}",
        f"{one['write_seconds']:.1f}",
        f"{one['keep_mib'] - one['before_mib']:.0f}",
        f"{one['bytes'] / 2**20:.1f}",
        str(one["merged"]),
    ]


def main() -> int:
    """Measure and print; 1 where showing takes more than is allowed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="10,100,300,1000")
    parser.add_argument("--child", choices=("keep", "show"))
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.child:
        folder: Path = options.folder
        figures = _keep(int(options.nodes), folder) if options.child == "keep" else _show(folder)
        sys.stdout.write(json.dumps(figures))
        return 0
    measured = [measure(int(nodes)) for nodes in options.nodes.split(",")]
    headings = ["nodes", "load s", "join s", "show s", "all s", "peak MiB"]
    headings += ["keep, of a CPU", "write s", "keep MiB", "file MiB", "merged"]
    print_table("samples of nodes, 600 s at 1 Hz", headings, [_row(one) for one in measured])
    if options.json is not None:
        write_json(options.json, "agent_scale", {"shapes": measured})
    last = measured[-1]
    slow = last["load_seconds"] + last["join_seconds"] + last["show_seconds"] > MOST_SECONDS
    return int(slow or last["show_mib"] > MOST_MIB)


if __name__ == "__main__":
    sys.exit(main())
