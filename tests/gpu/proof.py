"""Doing the steps: each in a process of its own, within its limit, its result kept before the next begins."""

import contextlib
import hashlib
import importlib
import os
import platform
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import torch

from raybench import __version__
from raybench.execution.ranks.rank_process import die_with_parent
from raybench.metadata import gpu_facts, installed_version
from tests.gpu.ranks import FORK
from tests.gpu.record import DRY_RUN, ON_GPU, SCHEMA, Record, Result, StepRecord, load, name_of, now, write
from tests.gpu.step import Bench, NotRunError, Outcome, Step

_ROOT = Path(__file__).parents[2]
_PACKAGES = ("ray", "peft", "bitsandbytes", "transformers", "triton", "nvidia-ml-py", "hyperscan", "msgspec")
_NCCL = ("nvidia-nccl-cu13", "nvidia-nccl-cu12")
_SOURCES = ("raybench", "diagnostics", "tests/gpu")
_DRY_FACTOR = 3  # a dry run may share its processors; the limits are for a machine of one's own
_SPARE_SECONDS = 3.0  # to end what a step left, and to write


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do: ``again`` also steps that have a result; ``seconds``: begin no step that could end after that."""

    steps: Sequence[Step]
    on_gpu: bool
    short: bool
    folder: Path
    seconds: float
    again: bool = False
    nccl_tests: Path | None = None


def empty_record(*, on_gpu: bool) -> Record:
    """A record of this machine, without steps. A dry run's has no GPU, whatever the machine has."""
    gpus = gpu_facts() if on_gpu else []
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    machine = {"gpus": gpus, "cpus": os.cpu_count(), "memory_bytes": memory, "kernel": platform.release()}
    versions = {"raybench": __version__, "python": platform.python_version(), "torch": str(torch.__version__)}
    found = {name: installed_version(name) for name in _PACKAGES}
    nccl = next(filter(None, map(installed_version, _NCCL)), None)
    driver = gpus[0]["driver_version"] if gpus else None
    return Record(
        schema=SCHEMA,
        label=ON_GPU if gpus else DRY_RUN,
        date=now(),
        machine=machine,
        versions=versions | found | {"nccl": nccl, "driver": driver},
    )


def opened(folder: Path, fresh: Record) -> tuple[Path, Record]:
    """The record to go on with: that of the same kind of GPU and versions, else the fresh one, in a file of its own."""
    alike = [path for path in sorted(folder.glob("*.json")) if _goes_on(load(path), fresh)]
    if alike:
        return alike[-1], load(alike[-1])
    name = name_of(fresh.machine, fresh.date).removesuffix(".json")
    names = (f"{name}.json", *(f"{name}-{number}.json" for number in range(2, 1000)))
    return next(folder / one for one in names if not (folder / one).exists()), fresh


def _goes_on(record: Record, fresh: Record) -> bool:
    kinds = [[one.get("name") for one in found.machine.get("gpus", ())] for found in (record, fresh)]
    return (record.label, kinds[0], record.versions) == (fresh.label, kinds[1], fresh.versions)


def prove(plan: Plan, path: Path, record: Record, say: Callable[[str], None]) -> tuple[Record, list[str]]:
    """Do the steps that have no result yet, and those that failed before the code was mended.

    Returns the record, and the ids of those for which no time was left.
    """
    if not plan.on_gpu:
        importlib.import_module(
            "torch._dynamo"
        )  # once, and not in each rank; with a GPU it might start CUDA before forks
    deadline, left = time.monotonic() + plan.seconds, []
    source = source_of(_ROOT, _SOURCES)
    for number, step in enumerate(plan.steps, start=1):
        known = record.steps.get(step.id)
        if known is not None and _is_done(known, source) and not plan.again:
            say(f"{number:2}/{len(plan.steps)} {step.id}: {known.result} on {known.at}")
            continue
        if time.monotonic() + step.seconds + _SPARE_SECONDS > deadline:
            left.append(step.id)
            continue
        record = record.with_step(step.id, _done(plan, step, source))
        write(path, record)
        say(f"{number:2}/{len(plan.steps)} {line_of(step.id, record.steps[step.id])}")
    return record, left


def _is_done(known: StepRecord, source: str) -> bool:
    return known.result == "passed" or (known.result == "failed" and known.source == source)


def line_of(name: str, found: StepRecord) -> str:
    """A step on one line: result, seconds, and the reason or what was compared."""
    text = found.reason or "; ".join(map(str, found.comparisons))
    return f"{name}: {found.result} ({found.seconds:.1f} s) {text}"


def source_of(root: Path, folders: Sequence[str]) -> str:
    """A fingerprint of all code of these folders: which code a step has proved."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in folders for path in (root / folder).rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _done(plan: Plan, step: Step, source: str) -> StepRecord:
    reason = None
    if not plan.on_gpu:
        reason = step.gpu_only or (step.not_short if plan.short else None)
    if reason is not None:
        return StepRecord(result="not-run", seconds=0.0, at=now(), source=source, reason=reason)
    begin = time.monotonic()
    folder = plan.folder / f"rbg-{os.getpid()}"
    try:  # before there is a folder: a signal between its making and this would leave it
        folder.mkdir(mode=0o700)
        bench = Bench(
            on_gpu=plan.on_gpu,
            short=plan.short,
            folder=folder,
            seconds=float(step.seconds) * (1 if plan.on_gpu else _DRY_FACTOR),
            nccl_tests=plan.nccl_tests,
        )
        found = _in_process(step, bench)
        if found.result == "failed":
            _keep_log(folder, plan.folder / f"{step.id}.log")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return msgspec.structs.replace(found, seconds=round(time.monotonic() - begin, 2), source=source)


def _keep_log(folder: Path, target: Path) -> None:
    """What the step's processes wrote, for whoever asks why it failed."""
    texts = [f"== {path.name}\n{path.read_text(errors='replace')[-20000:]}" for path in sorted(folder.glob("*.log"))]
    target.write_text("\n".join(texts))


def _in_process(step: Step, bench: Bench) -> StepRecord:
    """The step in a process and session of its own, which ends with all that it started when its limit is over."""
    here, there = FORK.Pipe(duplex=False)
    process = FORK.Process(target=_main, args=(step, bench, there))
    process.start()
    there.close()
    try:
        if not here.poll(bench.seconds):
            return _result("failed", f"it took more than its limit of {bench.seconds:.0f} s")
        found: StepRecord = here.recv()
    except EOFError:
        process.join(_SPARE_SECONDS)
        return _result("failed", f"its process ended without a word, with status {process.exitcode}")
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.kill()
        process.join(_SPARE_SECONDS)  # one that waits for the driver may never end: the next step is tried all the same
        _wait_for_group(process.pid or 0)
        here.close()
    return found


def _wait_for_group(group: int) -> None:
    """Until the killed processes of a step are gone, which write into its folder until then."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return
        time.sleep(0.02)


def _result(result: Result, reason: str) -> StepRecord:
    return StepRecord(result=result, seconds=0.0, at=now(), source="", reason=reason)


def _main(step: Step, bench: Bench, pipe: Connection) -> None:
    die_with_parent()  # in a session of its own it would outlive a call that is cut, and keep the GPU
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()
    log = os.open(bench.folder / "step.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(log, number)
    pipe.send(outcome_of(step, bench))
    pipe.close()
    sys.stdout.flush()
    os._exit(0)


def outcome_of(step: Step, bench: Bench) -> StepRecord:
    """The step, done here."""
    try:
        outcome: Outcome = step.run(bench)
    except NotRunError as reason:
        return _result("not-run", str(reason))
    except Exception as error:  # noqa: BLE001 - one step must not end the proof
        traceback.print_exc()
        return _result("failed", f"{type(error).__name__}: {error}"[:1000])
    broken = [str(one) for one in outcome.comparisons if one.judged and not one.holds]
    if bench.on_gpu:
        broken += _unproved(bench, outcome)
    return StepRecord(
        result="failed" if broken else "passed",
        seconds=0.0,
        at=now(),
        source="",
        reason="; ".join(broken) or None,
        devices=tuple(sorted(bench.devices)),
        gpus=tuple(sorted(bench.gpus)),
        comparisons=tuple(outcome.comparisons),
        figures=dict(outcome.figures),
    )


def _unproved(bench: Bench, outcome: Outcome) -> list[str]:
    """Why a step says nothing of a GPU, though all that it compared may hold."""
    found = [] if any(one.judged for one in outcome.comparisons) else ["it compared nothing"]
    if not bench.gpus or any(not device.startswith("cuda") for device in bench.devices):
        found.append(f"its ranks computed on {', '.join(sorted(bench.devices)) or 'nothing known'}, not all on a GPU")
    return found
