"""Time and memory of the diagnosis on a big log, against grep on the same file, alternating.

``python tests/diagnostics/bench_scan.py [corpus folder] [--gib 2] [--rounds 3] [--keep FILE]``. The log is made of
the large cases of the corpus, repeated with changed ranks, pids and sizes. Each diagnosis runs in a process of its
own, whose peak memory is read.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from score_corpus import find_corpus

GREP = "NCCL WARN|Using network|via NET/|GPU Direct RDMA|No device found"
MIN_CASE_BYTES = 250_000
RANKS_EACH = 64
_PAIR = re.compile(rb"(\d+)(\[[0-9a-f]+\]) -> (\d+)(?=\[)")
_RANK = re.compile(rb"rank (\d+) nranks (\d+)")
_PROCESS = re.compile(rb":(\d+):(\d+) \[")
CHILD = (
    "import resource, sys, time; started = time.perf_counter();"
    "from diagnostics.engine import diagnose_paths;"
    "diagnosis = diagnose_paths([sys.argv[1]]);"
    "seconds = time.perf_counter() - started;"
    "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024;"
    "print(f'{seconds:.2f} {peak:.0f} {diagnosis.verdict} {diagnosis.lines.read} {diagnosis.lines.nccl} "
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


def time_command(command: list[str]) -> tuple[float, str]:
    """Seconds and output of a command."""
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False)
    return time.perf_counter() - started, done.stdout.strip() or done.stderr[-500:]


def main() -> None:
    """Make the log, time both in turn, print every figure and the ratio of the medians."""
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus", nargs="?")
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    corpus = find_corpus(options.corpus)
    if corpus is None:
        print("no corpus: give its folder as argument or in RAYBENCH_NCCL_CORPUS; nothing was measured")
        return
    folder = Path(tempfile.mkdtemp())
    log = options.keep or folder / "big.log"
    if not log.exists():
        make_log(corpus, log, int(options.gib * 2**30))
    print(f"{log.stat().st_size / 2**30:.2f} GiB")
    ours, theirs = [], []
    for _ in range(options.rounds):
        seconds, count = time_command(["grep", "-cE", GREP, str(log)])
        theirs.append(seconds)
        whole, output = time_command([sys.executable, "-c", CHILD, str(log)])
        ours.append(whole)
        print(
            f"grep {seconds:.2f} s ({count} lines)   diagnose {whole:.2f} s (inside: seconds, peak MiB, "
            f"verdict ... {output})"
        )
    ratio = sorted(ours)[len(ours) // 2] / sorted(theirs)[len(theirs) // 2]
    print(f"ratio of medians: {ratio:.2f}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
