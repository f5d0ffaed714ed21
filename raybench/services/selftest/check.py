"""What a check is: a row of the table, a pure function of readings, and what that says."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from raybench.documents.diagnosis import Diagnosis
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.result import RunResult
from raybench.documents.selftest import CheckResult, DriverReading, Figure, TorchReading

NVIDIA, GPU, TWO_GPUS, RDMA = "nvidia", "gpu", "2 gpus", "rdma"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a check says; ``next_step`` goes with a failure."""

    result: CheckResult
    seen: str
    next_step: str = ""
    figures: Mapping[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A Python package that runs need: the least version, and the one installed; None where there is none."""

    name: str
    least: str
    installed: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReading:
    """A run of the selftest. ``problem``: why it could not be begun, and there is no result."""

    result: RunResult | None = None
    diagnosis: Diagnosis | None = None
    problem: str = ""
    folder: Path | None = None
    seconds: float = 0.0

    def benchmark(self, name: str) -> tuple[BenchmarkResult, ...]:
        """The benchmarks of that name; several where it has variations."""
        return tuple(one for one in self.result.benchmarks if one.name == name) if self.result else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """All that checks are judged by. ``runs`` by name, as far as they were begun."""

    driver: DriverReading
    torch: TorchReading
    packages: tuple[Package, ...] = ()
    rdma_ports: int = 0
    runs: Mapping[str, RunReading] = field(default_factory=dict)

    def run(self, name: str) -> RunReading:
        """A run that was begun."""
        return self.runs[name]

    @property
    def usable_gpus(self) -> int:
        """GPUs of NVIDIA that torch can use."""
        return len(self.torch.gpus) if self.torch.available and self.torch.cuda else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A row of the table. ``run``: the run that it rests on; empty where readings are enough.

    ``quick``: whether ``--quick`` has it, too.
    """

    id: str
    title: str
    proves: str
    judge: Callable[[Readings], Outcome]
    needs: tuple[str, ...] = ()
    run: str = ""
    limit_seconds: float = 60.0
    quick: bool = True


def passed(seen: str, **figures: Figure) -> Outcome:
    """It is as it should be."""
    return Outcome(result="passed", seen=seen, figures=figures)


def failed(seen: str, next_step: str, **figures: Figure) -> Outcome:
    """It is not; ``next_step`` is what to do."""
    return Outcome(result="failed", seen=seen, next_step=next_step, figures=figures)


def unknown(seen: str, next_step: str = "", **figures: Figure) -> Outcome:
    """It could not be found out."""
    return Outcome(result="unknown", seen=seen, next_step=next_step, figures=figures)


def not_run(why: str) -> Outcome:
    """There is nothing here to prove it on."""
    return Outcome(result="not-run", seen=why)


def unmet_need(need: str, readings: Readings) -> str | None:
    """Why this machine lacks what a check needs; None where it has it."""
    if need == NVIDIA:
        return _no_nvidia(readings)
    if need == RDMA:
        return None if readings.rdma_ports else "this machine has no RDMA port that is up"
    if not readings.usable_gpus:
        return _no_nvidia(readings) or "torch cannot use a GPU here (torch-cuda)"
    return "there is one GPU, and it needs two" if need == TWO_GPUS and readings.usable_gpus < 2 else None


def _no_nvidia(readings: Readings) -> str | None:
    """None also where the driver could not be read: there may be a GPU then."""
    driver = readings.driver
    if driver.problem or driver.gpus or driver.device_files or readings.usable_gpus:
        return None
    if driver.pci_gpus and driver.container:
        return f"{driver.pci_gpus} GPUs on the PCI bus of the host, none given to this container"
    return None if driver.pci_gpus else "this machine has no NVIDIA GPU"
