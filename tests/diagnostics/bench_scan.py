"""Time and memory of the diagnosis on big logs, against grep on the same file, alternating.

``make bench-scan``, or ``python -m tests.diagnostics.bench_scan``, with ``--help`` for what can be chosen.

There are two logs: that of one job of 512 ranks, and one of mixed jobs, the large cases of the corpus over and over
with other ranks, pids and sizes; ``--keep`` gives a log instead. Of each there is a table of grep, the diagnosis with
hyperscan (by as many processes as it takes by itself, and by one) and without, and that of another checkout, with
ratios to grep by the clock and by processor seconds, which other work on the machine changes less. Each diagnosis runs
in a process of its own; its memory, with that of the processes that it starts, is sampled in a run of its own (PSS: a
page that several share counts once). ``--patterns`` adds grep and rg (where installed) with every pattern of the gate.
The locale is C: in a UTF-8 one grep can take many times as long. Python finds its modules compiled, as pip leaves them.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from diagnostics.scanning.literals import ALWAYS, DETAIL, EXPRESSIONS, INIT
from tests.diagnostics.one_job_log import write_one_job
from tests.diagnostics.score_corpus import find_corpus

GREP = "NCCL WARN|Using network|via NET/|GPU Direct RDMA|No device found"
MIN_CASE_BYTES = 250_000
RANKS_EACH = 64
_PAIR = re.compile(rb"(\d+)(\[[0-9a-f]+\]) -> (\d+)(?=\[)")
_RANK = re.compile(rb"rank (\d+) nranks (\d+)")
_PROCESS = re.compile(rb":(\d+):(\d+) \[")
CHILD = (
    "import sys, time; started = time.perf_counter(); sys.path.insert(0, sys.argv[2]);"
    "sys.modules.update({'hyperscan': None} if sys.argv[3] else {});"
    "from diagnostics import engine; from diagnostics.engine import diagnose_paths;"
    "vars(engine).update({'processes_to_use': lambda: 1} if sys.argv[4] else {});"
    "diagnosis = diagnose_paths([sys.argv[1]]);"
    "seconds = time.perf_counter() - started;"
    "print(f'{seconds:.2f} {diagnosis.verdict} {diagnosis.lines.read} {diagnosis.lines.nccl} "
    "{len(diagnosis.findings)}')"
)


def make_log(corpus: Path, target: Path, total_bytes: int) -> None:
    """Write the large cases over and over, each time with other ranks."""
    cases = [
        path.read_bytes() for path in sorted((corpus / "cases").glob("*.log")) if path.stat().st_size >= MIN_CASE_BYTES
    ]
    written = repetition = 0
    with target.open("wb") as stream:
        while written < total_bytes:
            for case in cases:
                written += stream.write(shifted(case, repetition))
            repetition += 1


def shifted(case: bytes, repetition: int) -> bytes:
    """A case with ranks and pids moved up."""
    add = RANKS_EACH * repetition
    case = _PAIR.sub(lambda match: b"%d%b -> %d" % (int(match[1]) + add, match[2], int(match[3]) + add), case)
    case = _RANK.sub(lambda match: b"rank %d nranks %d" % (int(match[1]) + add, int(match[2]) + add), case)
    return _PROCESS.sub(lambda match: b":%d:%d [" % (int(match[1]) + repetition, int(match[2]) + repetition), case)


def environment(modules: Path) -> dict[str, str]:
    """What commands run with: the C locale, and a folder that keeps compiled modules."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "LC_ALL": "C", "PYTHONPYCACHEPREFIX": str(modules)}


def time_command(command: list[str], env: Mapping[str, str]) -> tuple[float, float, str]:
    """Seconds of the clock and of the processor, and the output of a command."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return seconds, processor, done.stdout.strip() or done.stderr[-500:]


def peak_mib(command: list[str], env: Mapping[str, str]) -> float:
    """The most memory that a command and what it starts have at a time, in MiB."""
    running, peak = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True, env=env), 0
    while running.poll() is None:
        stats = [path for path in Path("/proc").glob("[0-9]*") if _session(path) == running.pid]
        peak = max(peak, sum(map(_pss_kib, stats)))
        time.sleep(0.02)
    return peak / 1024


def _session(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(") ")[2].split()[3])
    except OSError:
        return 0  # it has ended


def _pss_kib(process: Path) -> int:
    try:
        return int((process / "smaps_rollup").read_text().partition("\nPss:")[2].split()[0])
    except (OSError, IndexError):
        return 0


def time_patterns(log: Path, folder: Path) -> None:
    """Print how long grep and rg take with every pattern that the gate looks for in a short log."""
    expressions = [re.escape(literal) for literal in ALWAYS]
    expressions += [expression.decode() for expression in (*EXPRESSIONS, *DETAIL, *INIT)]
    patterns = folder / "patterns"
    patterns.write_text("\n".join(text.replace("\\ ", " ") for text in expressions) + "\n")
    for tool in (["grep", "-cE", "-f"], ["rg", "--no-unicode", "-c", "-f"]):
        if shutil.which(tool[0]) is None:
            print(f"{tool[0]} is not installed")
            continue
        seconds, processor, count = time_command([*tool, str(patterns), str(log)], environment(folder))
        print(f"{tool[0]} with {len(expressions)} patterns {seconds:.2f} s (processor {processor:.2f}; {count} lines)")


def print_table(times: dict[str, list[tuple[float, float]]], peaks: dict[str, float], size: int) -> None:
    """Medians of each command, and the median, least and most of their ratios to grep's of the same round."""
    print(f"{'':<18}{'seconds':>9}{'MB/s':>7}{'x grep':>20}{'processor':>11}{'x grep':>20}{'peak MiB':>10}")
    for name, rows in times.items():
        whole, own = median(row[0] for row in rows), median(row[1] for row in rows)
        clock, processor = (ratios(rows, times["grep -cE"], column) for column in (0, 1))
        print(f"{name:<18}{whole:>9.2f}{size / whole / 1e6:>7.0f}{clock}{own:>11.2f}{processor}{peaks[name]:>10.0f}")


def ratios(rows: list[tuple[float, float]], grep: list[tuple[float, float]], column: int) -> str:
    """The median, least and most of the ratios of each round."""
    found = [row[column] / other[column] for row, other in zip(rows, grep, strict=True)]
    return f"{f'{median(found):.2f} ({min(found):.2f}-{max(found):.2f})':>20}"


def commands_on(log: Path, old: Path | None) -> dict[str, list[str]]:
    """What is timed on a log, by its name in the table."""
    commands = {"grep -cE": ["grep", "-cE", GREP, str(log)]}
    here = Path(__file__).parents[2]
    for name, tree, plain, alone in (
        ("diagnose", here, "", ""),
        ("one process", here, "", "alone"),
        ("plain", here, "plain", ""),
        ("plain, one process", here, "plain", "alone"),
        ("old", old, "", ""),
        ("old, plain", old, "plain", ""),
    ):
        if tree:
            commands[name] = [sys.executable, "-c", CHILD, str(log), str(tree), plain, alone]
    return commands


def measure(log: Path, commands: dict[str, list[str]], rounds: int, env: Mapping[str, str]) -> None:
    """Time the commands in turn, and print the table of a log."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            seconds, processor, output = time_command(command, env)
            times[name].append((seconds, processor))
            print(f"  {name}: {seconds:.2f} s, processor {processor:.2f} ({output})", flush=True)
    peaks = {name: peak_mib(command, env) for name, command in commands.items()}
    print_table(times, peaks, log.stat().st_size)


def made_logs(corpus: Path | None, folder: Path, total_bytes: int) -> dict[str, Path]:
    """The logs to measure on, by what they are of; without a corpus, that of one job only."""
    logs = {"one job": folder / "one.log"}
    write_one_job(logs["one job"], total_bytes)
    if corpus is None:
        print("mixed jobs are left out: there is no corpus; give its folder, or name it in RAYBENCH_NCCL_CORPUS")
    else:
        logs["mixed jobs"] = folder / "mixed.log"
        make_log(corpus, logs["mixed jobs"], total_bytes)
    return logs


def main() -> None:
    """Make the logs, time each in turn with grep, and print a table of each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus", nargs="?")
    parser.add_argument("--gib", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="a log to measure on, instead of those that are made")
    parser.add_argument("--old", type=Path, help="another checkout, to compare with")
    parser.add_argument("--patterns", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = {"log": options.keep} if options.keep else None
        logs = made or made_logs(find_corpus(options.corpus), Path(folder), int(options.gib * 2**30))
        env = environment(Path(folder) / "modules")
        for tree in {Path(__file__).parents[2], options.old or Path(__file__).parents[2]}:
            time_command([sys.executable, "-m", "compileall", "-q", str(tree / "diagnostics")], env)
        for name, log in logs.items():
            print(
                f"{name}: {log.stat().st_size / 2**20:.0f} MiB, {len(os.sched_getaffinity(0))} processors", flush=True
            )
            measure(log, commands_on(log, options.old), options.rounds, env)
            if options.patterns:
                time_patterns(log, Path(folder))


if __name__ == "__main__":
    main()
