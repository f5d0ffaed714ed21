"""The result file of nccl-tests (``--output_file out.json``, 2.17 and newer), brought to the table that it prints.

One JSON document of a run: version, arguments, environment, config with its devices, results, and at its end
``out_of_bounds``, ``average_bus_bandwidth`` and ``errors``. Lines of findings are those of the table. A run that failed
before its end has an ``end_time`` and no ``out_of_bounds``; releases to 2.18 leave the document open then.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from diagnostics.inputs.reader import Batch

MAX_BYTES = 2**25  # with the times of every iteration a document has some MiB
MAX_TEXT = 400
_HEAD = re.compile(rb'\s*\{\s*"version":\s*\d{1,9},\s*"start_time":')
_HEAD_BYTES = 200
_VARIABLE = re.compile(r"(?:NCCL|RCCL|FI|TORCH_NCCL)_[A-Z0-9_]+=")
_FALSE = ("false", False)
_CUT = "a result file of nccl-tests that breaks off: the run did not come to its end. Give what it printed"
_FAILED = "Test NCCL failure: nccl-tests wrote its end without its results"
_Json = Any


def with_results_as_table(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The batches of one file; where it is such a document, its table. What is no whole document stays as it is."""
    head: list[Batch] = []
    for batch in batches:
        head.append(batch)
        if sum(len(one.block) for one in head) >= _HEAD_BYTES:
            break
    if not _HEAD.match(b"\n".join(batch.block for batch in head)):
        yield from chain(head, batches)
        return
    size = 0
    for batch in batches:
        head.append(batch)
        size += len(batch.block)
        if size > MAX_BYTES:
            yield from chain(head, batches)
            return
    text = b"".join(batch.block + (b"" if batch.torn else b"\n") for batch in head)
    try:
        lines = list(_table(json.loads(text)))
    except (ValueError, RecursionError, TypeError, AttributeError, LookupError, OverflowError):
        yield from head
        yield replace(head[-1], block=b"", first=False, note=f"{head[-1].file}: {_CUT}")
        return
    yield replace(head[0], block="\n".join(lines).encode("utf-8", "replace"), torn=False)


def _table(document: _Json) -> Iterator[str]:
    """The lines that nccl-tests prints of the same run. Raises ValueError and its like where a part is of no such."""
    version = int(document["nccl_version"])
    yield f"NCCL version {version // 10_000}.{version // 100 % 100}.{version % 100}"
    yield from (f"export {_line(one)}" for one in document.get("env", []) if _VARIABLE.match(str(one)))
    config = document.get("config", {})
    if config:
        factor, increment = config.get("step_factor"), config.get("step_bytes")
        step = f"{int(factor)}(factor)" if factor is not None else f"{int(increment)}(bytes)"
        sizes = f"minBytes {int(config['minimum_bytes'])} maxBytes {int(config['maximum_bytes'])} step: {step}"
        yield f"# nThread {int(config['nthreads'])} nGpus {int(config['ngpus'])} {sizes}"
    yield from map(_device, config.get("devices", []))
    yield from map(_row, document.get("results", []))
    yield from (f"# error: {_line(error)}" for error in document.get("errors", []) if error)
    bounds, bandwidth = document.get("out_of_bounds"), document.get("average_bus_bandwidth")
    if bounds is None:
        yield _FAILED if "end_time" in document else ""
        return
    yield f"# Out of bounds values : {int(bounds['count'])} {'FAILED' if bounds['okay'] in _FALSE else 'OK'}"
    if bandwidth is not None:
        slow = " FAILED" if bandwidth["okay"] in _FALSE else ""
        yield f"# Avg bus bandwidth    : {float(bandwidth['bandwidth']):g}{slow}"


def _device(one: _Json) -> str:
    where = re.sub(r"\s", "", _line(one["hostname"]))
    numbers = f"Rank {int(one['rank']):2d} Group {int(one['group']):2d} Pid {int(one['pid']):6d}"
    device = f"{int(one['device']):2d} [{_line(one['device_hex'])}] {_line(one['device_info'])}"
    return f"#  {numbers} on {where} device {device}"


def _row(one: _Json) -> str:
    halves = "".join(_half(one[name]) for name in ("out_of_place", "in_place") if one.get(name))
    what = f"{_line(one['type']):>8s}  {_line(one['redop']):>6s}  {int(one['root']):6d}"
    return f"{int(one['size']):12d}  {int(one['count']):12d}  {what}{halves}"


def _half(one: _Json) -> str:
    time = float(one["time"] if "time" in one else one["cpu_time"])
    wrong = "N/A" if one["nwrong"] is None else f"{float(one['nwrong']):g}"
    return f"  {time:7.2f}  {float(one['alg_bw']):6.2f}  {float(one['bus_bw']):6.2f}  {wrong:>6s}"


def _line(text: object) -> str:
    """A text on one line, bounded."""
    return " ".join(str(text)[:MAX_TEXT].split())
