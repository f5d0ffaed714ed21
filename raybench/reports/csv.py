"""Every point as one CSV row, for spreadsheets and pandas.

Columns, stable: added at the end, never renamed. Text columns: run_id, benchmark, kind, status, dtype, reduce_op,
parameters (others, ``name=value`` joined by ``;``), algorithm, warnings (joined by `` | ``). Numbers: nodes and ranks
(counts), root, in_place and emulated (true/false), message_bytes, element_count, launches, blocks, samples; times
``*_us`` in microseconds (median, mean, min, max, p99, stddev, ci95_low, ci95_high) per operation; ``algbw_gb_per_s``
and ``busbw_gb_per_s`` in 10^9 bytes per second; verified (true/false, empty where it was not checked), wrong_elements,
slowest_rank, source_rank and destination_rank (pairs only, which have no ci95); expected_busbw_gb_per_s, expected_ratio
(measured over expected) and expected_basis (why, or why there is none). What does not apply is empty.

Of training, memory and checkpoint points: label, samples_per_s, tokens_per_s, mfu and overhead (shares of 1),
largest_batch, save_gb_per_s, load_gb_per_s; their times are of a step, or of a save until it is durable.

A run with a benchmark of another kind, such as an installed one, has ``figures`` at the end: ``name=value unit``
joined by ``;``.

A benchmark without points has one row that carries its status and reason, in ``warnings``. A matrix of more than
10,000 pairs has rows of the slowest only, then one without figures that says in ``warnings`` how many more there are.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from raybench.documents.benchmark import BenchmarkResult
from raybench.documents.result import RunResult
from raybench.reports.text import printable
from raybench.reports.workloads.table import workload_columns, workload_csv
from raybench.whole_file import write_whole

HEADER = (
    "run_id", "benchmark", "kind", "status", "backend", "emulated", "nodes", "ranks",
    "dtype", "reduce_op", "root", "in_place", "parameters",
    "message_bytes", "element_count", "launches", "blocks", "samples",
    "median_us", "mean_us", "min_us", "max_us", "p99_us", "stddev_us", "ci95_low_us", "ci95_high_us",
    "algbw_gb_per_s", "busbw_gb_per_s", "verified", "wrong_elements", "slowest_rank",
    "source_rank", "destination_rank", "algorithm", "warnings",
    "expected_busbw_gb_per_s", "expected_ratio", "expected_basis",
    "label", *workload_columns(),
)  # fmt: skip
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def write_csv(result: RunResult, path: Path) -> None:
    """Write one row a point. Raises OSError."""
    write_whole(path, render_csv(result))


def render_csv(result: RunResult, _diagnosis: object = None) -> str:
    """One row a point, below the names of the columns; a diagnosis has no place among them."""
    text = io.StringIO(newline="")
    rows = [*csv_rows(result)]
    header = dict.fromkeys((*HEADER, *(name for row in rows for name in row)))  # and those of kinds that are no line
    writer = csv.DictWriter(text, header, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def csv_rows(result: RunResult) -> Iterator[dict[str, str]]:
    """The rows by column name; columns that do not apply are absent."""
    cluster = result.cluster
    run = {
        "run_id": result.run_id,
        "backend": cluster.backend,
        "emulated": cluster.emulated,
        "nodes": len(cluster.nodes),
        "ranks": cluster.world_size,
    }
    for benchmark in result.benchmarks:
        described = run | _benchmark_fields(benchmark)
        rows = [*workload_csv(benchmark, cluster)]
        for row in rows or [{"warnings": benchmark.reason}]:
            yield _cells(described | row)


def _benchmark_fields(benchmark: BenchmarkResult) -> dict[str, Any]:
    known = ("dtype", "reduce_op", "root", "in_place")
    rest = (f"{key}={value}" for key, value in benchmark.parameters.items() if key not in known and value is not None)
    return {
        "benchmark": benchmark.name,
        "kind": benchmark.kind,
        "status": benchmark.status,
        **{key: benchmark.parameters.get(key) for key in known},
        "parameters": ";".join(rest),
    }


def _cells(fields: Mapping[str, Any]) -> dict[str, str]:
    return {key: _cell(value) for key, value in fields.items()}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value:.9g}"
    return _plain_text(str(value))


def _plain_text(text: str) -> str:
    """Text that a spreadsheet takes for text: what would begin a formula gets an apostrophe in front."""
    shown = printable(text)
    return f"'{shown}" if text.lstrip().startswith(_FORMULA_STARTS) or text.startswith(_FORMULA_STARTS) else shown
