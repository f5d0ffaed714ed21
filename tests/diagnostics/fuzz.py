"""Fuzzes the diagnosis: ``python tests/diagnostics/fuzz.py --inputs 1000000`` or ``--guided 300`` (seconds).

The first takes mutated lines of the cases and of the labelled logs, in one process, and stops at the first input that
raises, takes more than MAX_SECONDS of a processor or makes the process grow beyond MAX_GROWTH_MIB; that input is
written to a file.
The second lets atheris (an optional package) look for inputs that reach new code, which also starts from those lines.
"""

import argparse
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from tests.diagnostics.mutation import FORMATS, diagnose, load_lines, mutated

MAX_SECONDS = 5.0
MAX_GROWTH_MIB = 300
RENDER_EVERY = 25
REPORT_EVERY = 50_000


def peak_mib() -> float:
    """The largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run_mutations(inputs: int, seed: int, seconds: float) -> int:
    """Diagnose that many mutated inputs; 1 where one of them fails."""
    lines = load_lines(corpus=True)
    random_ = random.Random(seed)
    started, slowest, before = time.monotonic(), 0.0, 0.0
    done = 0
    while done < inputs and time.monotonic() - started < seconds:
        data = mutated(random_, lines)
        begun = time.process_time()
        try:
            diagnose(data, formats=FORMATS if done % RENDER_EVERY == 0 else ())
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a find
            return report(data, f"{type(error).__name__}: {error}")
        taken = time.process_time() - begun
        slowest = max(slowest, taken)
        done += 1
        before = before or peak_mib()
        if taken > MAX_SECONDS:
            return report(data, f"took {taken:.1f} s")
        if peak_mib() - before > MAX_GROWTH_MIB:
            return report(data, f"the process grew from {before:.0f} to {peak_mib():.0f} MiB")
        if done % REPORT_EVERY == 0:
            print(f"{done} inputs, {time.monotonic() - started:.0f} s", flush=True)
    print(
        f"{done} of {inputs} inputs from {len(lines)} lines, seed {seed}: no failure, slowest {slowest * 1000:.0f} ms, "
        f"peak {peak_mib():.0f} MiB, {time.monotonic() - started:.0f} s"
    )
    return 0 if done == inputs else 3


def report(data: bytes, why: str) -> int:
    """Keep an input that fails."""
    with tempfile.NamedTemporaryFile(prefix="fuzz-", suffix=".log", delete=False) as kept:
        kept.write(data)
    print(f"{kept.name}: {why}")
    return 1


def run_guided(seconds: int) -> None:
    """Let atheris look for new paths; does not return."""
    import atheris  # optional

    with atheris.instrument_imports(include=["diagnostics"], enable_loader_override=False):
        for name in [name for name in sys.modules if name.split(".")[0] == "diagnostics" or name.endswith(".mutation")]:
            del sys.modules[name]
        from tests.diagnostics import mutation  # again, instrumented
    folder = Path(tempfile.mkdtemp(prefix="fuzz-corpus-"))
    random_ = random.Random(0)
    lines = mutation.load_lines()
    for number in range(400):
        (folder / str(number)).write_bytes(mutation.mutated(random_, lines))
    options = [
        sys.argv[0],
        str(folder),
        f"-max_total_time={seconds}",
        "-max_len=4096",
        "-timeout=20",
        "-rss_limit_mb=2048",
    ]
    atheris.Setup(options, lambda data: mutation.diagnose(data, formats=()) and None)
    atheris.Fuzz()


def main() -> int:
    """Fuzz as asked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--guided", type=int, metavar="SECONDS", help="coverage-guided, for so long")
    options = parser.parse_args()
    if options.guided:
        run_guided(options.guided)
    return run_mutations(options.inputs, options.seed, options.seconds)


if __name__ == "__main__":
    sys.exit(main())
