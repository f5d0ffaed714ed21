"""What the reports of large runs cost: seconds, peak memory and bytes of each output, by the size of the cluster.

``python -m tests.measurements.report_scale --shapes 10x8,256x8,1000x8``

Each shape is rendered by a process of its own, so that its peak resident memory is its own: that of the result, which
a run has in memory anyway, stands beside the peak after every output. The results are synthetic
(``tests/reports/synthetic.py``): nothing is measured but the reports.
"""

import argparse
import io
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.measurements.table import print_table, write_json

MOST_SECONDS, MOST_MIB, MOST_BYTES = 20.0, 500.0, 5_000_000


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _outputs(nodes: int, per_node: int, folder: Path) -> dict[str, Callable[[], None]]:
    """Every output of a run by name; calling one writes it to ``folder``."""
    from raybench.reports.csv import write_csv  # counted as the first output's
    from raybench.reports.html import write_html
    from raybench.reports.markdown import render_markdown
    from raybench.reports.summary import summary_of
    from raybench.reports.terminal.report import print_document
    from raybench.whole_file import write_whole
    from tests.reports.synthetic import synthetic_diagnosis, synthetic_result

    result, diagnosis = synthetic_result(nodes, per_node), synthetic_diagnosis(nodes, per_node)

    def summary() -> None:
        (folder / "summary.json").write_text(json.dumps(summary_of(result)))

    def terminal() -> None:
        stream = io.StringIO()
        print_document(result, stream, full=True, width=120)
        (folder / "terminal.txt").write_text(stream.getvalue())

    return {
        "result.json": lambda: None,
        "summary.json": summary,
        "result.csv": lambda: write_csv(result, folder / "result.csv"),
        "terminal.txt": terminal,
        "report.md": lambda: write_whole(folder / "report.md", render_markdown(result, diagnosis)),
        "report.html": lambda: write_html(result, folder / "report.html", diagnosis),
    }


def measure(nodes: int, per_node: int, folder: Path) -> dict[str, Any]:
    """Render every output in this process."""
    outputs = _outputs(nodes, per_node, folder)
    figures: dict[str, Any] = {"nodes": nodes, "per_node": per_node, "result_mib": _peak_mib(), "outputs": {}}
    for name, write in outputs.items():
        if name == "result.json":
            continue
        begun = time.perf_counter()
        write()
        seconds = time.perf_counter() - begun
        size = (folder / name).stat().st_size
        figures["outputs"][name] = {"seconds": seconds, "bytes": size, "peak_mib": _peak_mib()}
    return figures


def _in_a_process(shape: str, folder: Path, limit_seconds: float) -> dict[str, Any] | None:
    command = [sys.executable, "-m", "tests.measurements.report_scale", "--child", shape, "--keep", str(folder)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=limit_seconds, check=True)
    except subprocess.TimeoutExpired:
        return None
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def _rows(shape: str, figures: dict[str, Any] | None) -> list[list[str]]:
    if figures is None:
        return [[shape, "all", "over the limit", "-", "-"]]
    rows = [
        [shape, name, f"{one['seconds']:.2f}", f"{one['peak_mib']:.0f}", f"{one['bytes']:,}"]
        for name, one in figures["outputs"].items()
    ]
    seconds, mib, size = totals(figures)
    return [
        *rows,
        [shape, "together", f"{seconds:.2f}", f"{mib:.0f} ({figures['result_mib']:.0f} before)", f"{size:,}"],
    ]


def totals(figures: dict[str, Any]) -> tuple[float, float, int]:
    """Seconds and bytes of all outputs, and the peak in MiB."""
    outputs = figures["outputs"].values()
    seconds, size = sum(one["seconds"] for one in outputs), sum(one["bytes"] for one in outputs)
    return seconds, max(one["peak_mib"] for one in outputs), size


def within(figures: dict[str, Any] | None) -> bool:
    """Whether all outputs of a shape together keep the limits."""
    if figures is None:
        return False
    seconds, mib, size = totals(figures)
    return seconds < MOST_SECONDS and mib < MOST_MIB and size < MOST_BYTES


def main() -> int:
    """The table; exit code 1 where a shape breaks a limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default="10x8,256x8,1000x8", help="NODESxGPUS,...")
    parser.add_argument("--limit", type=float, default=600.0, metavar="S", help="seconds after which a shape is ended")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the outputs here, in a folder a shape")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        nodes, per_node = map(int, arguments.child.split("x"))
        print(json.dumps(measure(nodes, per_node, arguments.keep)))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        found = {}
        for shape in arguments.shapes.split(","):
            folder = (arguments.keep or Path(temporary)) / shape
            folder.mkdir(parents=True, exist_ok=True)
            found[shape] = _in_a_process(shape, folder, arguments.limit)
    rows = [row for shape, figures in found.items() for row in _rows(shape, figures)]
    limits = f"at most {MOST_SECONDS:.0f} s, {MOST_MIB:.0f} MiB and {MOST_BYTES:,} bytes together"
    print_table(f"Reports by size of the cluster ({limits})", ("shape", "output", "s", "peak MiB", "bytes"), rows)
    write_json(arguments.json, "report_scale", found)
    return 0 if all(map(within, found.values())) else 1


if __name__ == "__main__":
    sys.exit(main())
