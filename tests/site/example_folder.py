"""A folder with what the documents' examples name: an inventory, runs, studies, logs, reports and tables of tools."""

import contextlib
import shutil
import sqlite3
from pathlib import Path

TESTS = Path(__file__).parents[1]
_SAMPLES = TESTS / "documents/samples"
_LOG = TESTS / "diagnostics/cases/hca-filter-excludes-all/emulated_hca_filter_excludes_all/input.log"
_RUN = "collective-26f0ebe.json"
_IMPORTED = "runs/20261121-014502-3f9a"
_RUNS = (
    _IMPORTED, "runs/RUN_ID", "runs/monday", "runs/tuesday", "runs/today", "runs/week-1/a", "runs/week-1/b",
    "runs/week-1/c", "before/a", "after/a", "A", "B", "C", "RUN",
)  # fmt: skip
_PREFLIGHTS = ("preflight.json", "checks/preflight-1/preflight.json", "runs/preflight-20261121-014502/preflight.json")
_FILES = {
    "nccl_debug.log": _LOG,
    "logs/nccl-rank-0.log": _LOG,
    "runs/RUN_ID/logs/nccl-rank-0.log": _LOG,
    "slurm-1417.out": _LOG,
    "train.1417.out": _LOG,
    "range-query.json": TESTS / "timeline/imported/range-query.json",
    "dmon.txt": TESTS / "timeline/imported/dmon-dt.txt",
    "ibdiagnet2/ibdiagnet2.log": TESTS / "preflight/subnet/recorded/ibdiagnet_counters.log",
    "ports.json": TESTS / "preflight/subnet/recorded/ufm_unhealthy_ports.json",
}
_TABLE = """# Collective test starting: all_reduce_perf
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
   268435456      67108864     float     sum      -1   1377.7  194.84  365.33       0   1376.1  195.07  365.76       0
"""
_TEXTS = {
    "old.log": _TABLE,
    "new.log": _TABLE.replace("1377.7", "1388.2"),
    "train.1417.err": "",
    "hosts.mpi": "gpu-01 slots=8\ngpu-02 slots=8\n",
    "corpus.jsonl": '{"text": "the quick brown fox jumps over the lazy dog"}\n' * 800,
    "Qwen2.5-32B/config.json": '{"model_type": "qwen2", "hidden_size": 5120, "intermediate_size": 27648, '
    '"num_hidden_layers": 64, "num_attention_heads": 40, "num_key_value_heads": 8, "vocab_size": 152064}',
    "run.yml": "suite: [all_reduce, ddp]\nsizes: 1K\ntraining:\n  model: tiny\n  steps: 5\n",
}


def fill(folder: Path) -> None:
    """Write all of them below ``folder``."""
    for name in _RUNS:
        _copy(_SAMPLES / _RUN, folder / name / "result.json")
    for day, letter in enumerate("abc", 16):
        _change(folder / f"runs/week-1/{letter}/result.json", '"20261122-170145-', f'"{letter}-')
        _change(folder / f"runs/week-1/{letter}/result.json", "2026-11-22T17:01", f"2026-11-{day}T17:01")
    _change(folder / _IMPORTED / "result.json", "2026-11-22T17:01", "2026-11-23T02:00")
    _change(folder / "RUN/result.json", "2026-11-22T17:01", "2026-11-23T03:00")
    _change(folder / "RUN/result.json", '"node-1"', '"gpu-01"')
    for name, source in _FILES.items():
        _copy(source, folder / name)
    for name, text in _TEXTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def _change(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


def keep_preflight(folder: Path, made: Path, history: Path) -> None:
    """Take a preflight of this machine, and its history, as those of a node of the examples."""
    text = made.read_text(encoding="utf-8").replace('"localhost"', '"gpu-07"')
    for name in _PREFLIGHTS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    with contextlib.closing(sqlite3.connect(history)) as base:
        base.executescript("UPDATE host SET host = 'gpu-07'; UPDATE look SET host = 'gpu-07';")
    for name in ("nodes.sqlite", "runs/nodes.sqlite"):
        _copy(history, folder / name)
