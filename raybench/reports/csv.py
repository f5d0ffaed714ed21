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

A run that went on without some nodes (--continue-without) has ``dropped_nodes`` at the end, joined by ``;``.

Samples of nodes (node_samples.json) have a row a value: node, seconds since the run's start, series, value.

A benchmark without points has one row that carries its status and reason, in ``warnings``. A matrix of more than
10,000 pairs has rows of the slowest only, then one without figures that says in ``warnings`` how many more there are.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from raybench.documents.diagnosis import Diagnosis
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.node_samples import SAMPLE_COLUMNS, NodeSamples
from raybench.documents.run.result import RunResult
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.table import report_of
from raybench.reports.model import Block, Details, Facts, Finding, Notes, Table
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


def render_csv(document: Any, diagnosis: Diagnosis | None = None) -> str:
    """Of a run one row a point, of samples one row a value; of any other document the tables of its report."""
    if isinstance(document, NodeSamples):
        return _samples_csv(document)
    return _run_csv(document) if isinstance(document, RunResult) else _tables_csv(document, diagnosis)


def _run_csv(result: RunResult) -> str:
    text = io.StringIO(newline="")
    rows = [*csv_rows(result)]
    header = dict.fromkeys((*HEADER, *(name for row in rows for name in row)))  # and those of kinds that are no line
    writer = csv.DictWriter(text, header, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _samples_csv(samples: NodeSamples) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(SAMPLE_COLUMNS)
    names = {node.name: _plain_text(node.name) for node in samples.nodes}
    writer.writerows((names[node], at, _plain_text(series), value) for node, at, series, value in samples.rows())
    return text.getvalue()


def _tables_csv(document: Any, diagnosis: Diagnosis | None) -> str:
    """A table after the other, an empty line between them; names with their values are a table of two columns."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    for number, rows in enumerate(_tables(report_of(document, Asked(diagnosis=diagnosis)).blocks)):
        writer.writerows([[]] if number else [])
        writer.writerows([_plain_text(cell) for cell in row] for row in rows)
    return text.getvalue()


def _tables(blocks: Iterable[Block]) -> Iterator[list[Sequence[str]]]:
    for block in blocks:
        if isinstance(block, Table):
            yield [block.grid.headings, *([cell.text for cell in row] for row in block.grid.rows)]
        elif isinstance(block, Facts):
            yield [("name", "value"), *block.pairs]
        elif isinstance(block, Notes):
            yield [("note",), *((note.subject + note.text,) for note in block.items)]
        elif isinstance(block, Details | Finding):
            yield from _tables(block.blocks)


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
    continued = result.continued
    dropped = {} if continued is None else {"dropped_nodes": ";".join(one.node for one in continued.dropped)}
    for benchmark in result.benchmarks:
        described = run | _benchmark_fields(benchmark)
        rows = [*workload_csv(benchmark, cluster)]
        for row in rows or [{"warnings": benchmark.reason}]:
            yield _cells(described | row | dropped)


def _benchmark_fields(benchmark: BenchmarkResult) -> dict[str, Any]:
    return {
        "benchmark": benchmark.name,
        "kind": benchmark.kind,
        "status": benchmark.status,
        "dtype": benchmark.dtype,
        "reduce_op": benchmark.reduce_op,
        "root": benchmark.root,
        "in_place": benchmark.in_place,
        "parameters": ";".join(benchmark.other_parameters),
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
