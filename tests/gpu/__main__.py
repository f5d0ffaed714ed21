"""``python -m tests.gpu``: prove what raybench claims about a GPU, or go through it on a CPU with ``--dry-run``.

make gpu-proof                       all steps on this machine's GPU; again: those that are left
make gpu-proof-dry                   the same script on a CPU, over gloo
python -m tests.gpu --list           the table of steps
python -m tests.gpu --only train-ddp,checkpoint --again
python -m tests.gpu --seconds 570    begin no step that could end later
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from raybench.processes.lost_interrupt import send_lost_interrupts_again

if TYPE_CHECKING:
    from tests.gpu.step import Step

ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 when every step passed, 1 when one failed, 2 for wrong options or records, 3 when some are not proved.

    Of a dry run 0 says that all steps went through that a CPU can do.
    """
    begin = time.monotonic()  # torch is not imported yet: a new machine takes long for it
    options = _options(arguments)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    from tests.gpu.table import STEPS, step_of  # imports torch: seconds

    try:
        steps = [step_of(name.strip()) for name in options.only.split(",")] if options.only else list(STEPS)
    except KeyError as error:
        return _refused(str(error.args[0]))
    if options.list:
        for step in steps:
            print(f"{step.id:18} {step.seconds:4} s  {step.proves}; compared: {step.compared}")
        print(f"{len(steps)} steps, at most {sum(step.seconds for step in steps)} s")
        return 0
    import msgspec

    try:
        return _prove(options, steps, begin)
    except (OSError, msgspec.DecodeError) as error:
        return _refused(f"the record cannot be kept: {error}")


def _refused(why: str) -> int:
    print(f"gpu-proof: {why}", file=sys.stderr)
    return 2


def _prove(options: argparse.Namespace, steps: Sequence["Step"], begin: float) -> int:
    from tests.gpu.proof import Plan, empty_record, opened, prove
    from tests.gpu.record import ON_GPU, alone

    fresh = empty_record(on_gpu=not options.dry_run)
    if fresh.label != ON_GPU and not options.dry_run:
        return _refused("nvidia-smi lists no GPU here; make gpu-proof-dry goes through the steps on a CPU")
    options.records.mkdir(parents=True, exist_ok=True)
    options.logs.mkdir(parents=True, exist_ok=True)
    with alone(options.records):
        path, record = opened(options.records, fresh)
        print(f"gpu-proof ({record.label}): {len(steps)} steps, record {path}", flush=True)
        plan = Plan(
            steps=steps,
            on_gpu=not options.dry_run,
            short=options.short,
            folder=options.logs,
            seconds=options.seconds - (time.monotonic() - begin),
            again=options.again,
            nccl_tests=options.nccl_tests,
        )
        try:
            record, left = prove(plan, path, record, lambda text: print(text, flush=True))
        except KeyboardInterrupt:
            print(f"gpu-proof: stopped; what was done before is in {path}", file=sys.stderr)
            return 3
    print(f"gpu-proof ({record.label}): {time.monotonic() - begin:.1f} s; record {path}")
    return _ending(options, {step.id: record.steps[step.id].result for step in steps if step.id in record.steps}, left)


def _ending(options: argparse.Namespace, found: Mapping[str, str], left: Sequence[str]) -> int:
    """Say what is proved and what is not. Returns the exit code."""
    results = list(found.values())
    print(", ".join(f"{results.count(kind)} {kind}" for kind in ("passed", "failed", "not-run")))
    missing = [name for name, result in found.items() if result == "not-run" and name not in left]
    if missing:
        print(f"not proved, as they could not be run here: {', '.join(missing)}")
    if left:
        print(f"left for the next call, for lack of time: {', '.join(left)}")
    if "failed" in results:
        print(f"logs of the steps that failed: {options.logs}")
        return 1
    return 3 if left or "passed" not in results or (missing and not options.dry_run) else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="on a CPU, over gloo: all but CUDA itself")
    parser.add_argument("--short", action="store_true", help="with --dry-run: leave out what has tests of its own")
    parser.add_argument("--only", metavar="ID,...", help="these steps only")
    parser.add_argument("--again", action="store_true", help="also steps that have a result")
    parser.add_argument("--list", action="store_true", help="print the steps and their limits")
    parser.add_argument("--seconds", type=float, default=1560.0, help="begin no step that could end later")
    parser.add_argument(
        "--records", type=Path, help="folder of the record  [tests/gpu/records; dry: runs/gpu-proof-dry]"
    )
    parser.add_argument("--logs", type=Path, help="folder for the logs of steps that failed  [runs/gpu-proof-logs]")
    parser.add_argument("--nccl-tests", type=Path, metavar="DIR", help="sources of nccl-tests, to be built here")
    options = parser.parse_args(arguments)
    options.logs = options.logs or ROOT / "runs/gpu-proof-logs"
    if options.records is None:
        options.records = ROOT / ("runs/gpu-proof-dry" if options.dry_run else "tests/gpu/records")
    return options


if __name__ == "__main__":
    send_lost_interrupts_again()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a call that is cut ends its step, too
    sys.exit(main())
