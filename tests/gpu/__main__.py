"""``python -m tests.gpu``: prove what raybench claims about a GPU, or go through it on a CPU with ``--dry-run``.

make gpu-proof                       all steps on this machine's GPU; again: those that are left
make gpu-proof-dry                   the same script on a CPU, over gloo
python -m tests.gpu --list           the table of steps
python -m tests.gpu --only train-ddp,checkpoint --again
python -m tests.gpu --seconds 570    begin no step that could end later
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.gpu.step import Step

ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 when every step passed or could not be run here, 1 when one failed, 3 when some are left."""
    options = _options(arguments)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    from tests.gpu.table import STEPS, step_of  # imports torch: seconds

    steps = [step_of(name) for name in options.only.split(",")] if options.only else list(STEPS)
    if options.list:
        for step in steps:
            print(f"{step.id:18} {step.seconds:4} s  {step.proves}; compared: {step.compared}")
        print(f"{len(steps)} steps, at most {sum(step.seconds for step in steps)} s")
        return 0
    return _prove(options, steps)


def _prove(options: argparse.Namespace, steps: Sequence["Step"]) -> int:
    from tests.gpu.proof import Plan, empty_record, opened, prove
    from tests.gpu.record import ON_GPU

    fresh = empty_record(on_gpu=not options.dry_run)
    if fresh.label != ON_GPU and not options.dry_run:
        print("gpu-proof: nvidia-smi lists no GPU here; make gpu-proof-dry goes through the steps on a CPU")
        return 2
    options.records.mkdir(parents=True, exist_ok=True)
    path, record = opened(options.records, fresh)
    print(f"gpu-proof ({record.label}): {len(steps)} steps, record {path}", flush=True)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rbg-") as folder:
        plan = Plan(
            steps=steps,
            on_gpu=not options.dry_run,
            short=options.short,
            folder=options.logs or Path(folder),
            seconds=options.seconds,
            again=options.again,
            nccl_tests=options.nccl_tests,
        )
        plan.folder.mkdir(parents=True, exist_ok=True)
        record, left = prove(plan, path, record, lambda text: print(text, flush=True))
    results = [record.steps[step.id].result for step in steps if step.id in record.steps]
    counts = ", ".join(f"{results.count(kind)} {kind}" for kind in ("passed", "failed", "not-run"))
    print(f"gpu-proof ({record.label}): {counts} in {time.monotonic() - begin:.1f} s; record {path}")
    if left:
        print(f"left for the next call, for lack of time: {', '.join(left)}")
    return 1 if "failed" in results else 3 * bool(left)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="on a CPU, over gloo: all but CUDA itself")
    parser.add_argument("--short", action="store_true", help="with --dry-run: leave out what has tests of its own")
    parser.add_argument("--only", metavar="ID,...", help="these steps only")
    parser.add_argument("--again", action="store_true", help="also steps that have a result")
    parser.add_argument("--list", action="store_true", help="print the steps and their limits")
    parser.add_argument("--seconds", type=float, default=1500.0, help="begin no step that could end later")
    parser.add_argument(
        "--records", type=Path, help="folder of the record  [tests/gpu/records; dry: runs/gpu-proof-dry]"
    )
    parser.add_argument("--logs", type=Path, help="folder for the logs of steps that failed")
    parser.add_argument("--nccl-tests", type=Path, metavar="DIR", help="sources of nccl-tests, to be built here")
    options = parser.parse_args(arguments)
    if options.records is None:
        options.records = ROOT / ("runs/gpu-proof-dry" if options.dry_run else "tests/gpu/records")
    return options


if __name__ == "__main__":
    sys.exit(main())
