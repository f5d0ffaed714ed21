"""What ``raybench selftest`` proved of an installation: a row a check, and what was read of its software and GPUs.

Schema ``raybench.selftest/1``: keys are added, never renamed or removed. None is "not known".
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

from msgspec import field

from raybench.documents.part import FieldwiseDocument, FieldwisePart
from raybench.documents.plain import Json
from raybench.documents.quantity import Count, Seconds
from raybench.verdicts import Conclusion

CheckResult = Literal["passed", "failed", "not-run", "unknown"]
Figure = float | int | str | bool | None
_MOST_NAMES = 4


class DriverGpu(FieldwisePart, frozen=True, kw_only=True):
    """A GPU as NVML names it. ``nvlinks``: its NVLinks that are up."""

    uuid: str
    name: str
    mig: bool | None = None
    nvlinks: Count | None = None


class DriverReading(FieldwisePart, frozen=True, kw_only=True):
    """NVIDIA's driver, read without torch. ``problem``: why nothing of it could be read; then no GPU is ruled out.

    ``pci_gpus``: GPUs of NVIDIA on the PCI bus; ``device_files``: their files in /dev; ``closed_files``: those of the
    driver that this user cannot open. ``container``: a container shows the bus of its host, and may have no GPU of it.
    ``cuda``: the newest CUDA of the driver's libcuda (``13.0``). ``cuda_init``: what cuInit returned, 0 where CUDA
    started; None where there is no libcuda, as ``libcuda_problem`` says. ``visible_devices``: CUDA_VISIBLE_DEVICES.
    """

    problem: str = ""
    pci_gpus: Count = 0
    device_files: Count = 0
    container: bool = False
    version: str | None = None
    nvml_problem: str = ""
    gpus: tuple[DriverGpu, ...] = ()
    cuda: str | None = None
    cuda_init: int | None = None
    libcuda_problem: str = ""
    closed_files: tuple[str, ...] = ()
    visible_devices: str | None = None


class TorchGpu(FieldwisePart, frozen=True, kw_only=True):
    """A GPU as torch sees it. ``capability``: its compute capability (``9.0``)."""

    uuid: str
    name: str
    capability: str
    memory_bytes: Count


class NcclLibrary(FieldwisePart, frozen=True, kw_only=True):
    """An NCCL library that is loaded beside torch; ``version`` as it says itself."""

    path: str
    version: str | None


class TorchReading(FieldwisePart, frozen=True, kw_only=True):
    """What torch was built with, and what it has found. ``problem``: why it could not be asked.

    ``cuda``, ``hip``: the runtime that it was built for; ``architectures``: of its kernels (``sm_90``, ``compute_90``).
    ``nccl``: the version that it was compiled with. ``cuda_problem``: why torch cannot use CUDA, in its own words.
    """

    problem: str = ""
    version: str | None = None
    cuda: str | None = None
    hip: str | None = None
    architectures: tuple[str, ...] = ()
    available: bool | None = None
    cuda_problem: str = ""
    gpus: tuple[TorchGpu, ...] = ()
    nccl: str | None = None
    nccl_libraries: tuple[NcclLibrary, ...] = ()
    cudnn: str | None = None
    cudnn_problem: str = ""
    import_seconds: Seconds | None = None


class SelftestCheck(FieldwisePart, frozen=True, kw_only=True):
    """One check. ``seen``: what was seen, or why it was not run; ``next_step``: what to do about a failure.

    ``needs``: what the machine must have for it (``nvidia``: a GPU of NVIDIA; ``gpu``: one that torch can use;
    ``2 gpus``, ``rdma``). ``run``: the folder of the run that it rests on, below that of the selftest; ``seconds``: how
    long that took, for all checks that rest on it.
    """

    id: str
    title: str
    proves: str
    needs: tuple[str, ...]
    limit_seconds: Seconds
    result: CheckResult
    seen: str
    next_step: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)  # a later raybench may have more than a Figure
    seconds: Seconds | None = None
    run: str | None = None

    @property
    def needs_gpu(self) -> bool:
        """Whether it is of GPUs alone."""
        return bool(self.needs)


class RankDevice(FieldwisePart, frozen=True, kw_only=True):
    """What a rank of a run (``collectives``) computed on: ``cpu``, or ``cuda:0`` and the UUID of that GPU."""

    run: str
    rank: Count
    device: str | None
    gpu_uuid: str | None


class SelftestReport(FieldwiseDocument, frozen=True, kw_only=True):
    """All checks in their order. ``gpus``: those that torch can use here; ``gpu_asked``: whether ``--gpu`` was given.

    ``stopped``: the user ended it. ``backend``: of the runs, None where none was begun; ``ranks``: of all runs.
    """

    SCHEMA: ClassVar[str] = "raybench.selftest/1"
    DERIVED: ClassVar[frozenset[str]] = frozenset({"schema", "verdict", "verdict_reason"})
    selftest_id: str
    hostname: str
    started_at: str
    finished_at: str
    versions: Mapping[str, str]
    backend: str | None
    gpus: Count
    gpu_asked: bool
    stopped: bool
    driver: DriverReading
    torch: TorchReading
    checks: tuple[SelftestCheck, ...]
    ranks: tuple[RankDevice, ...] = ()

    def of(self, result: CheckResult) -> tuple[SelftestCheck, ...]:
        """The checks with a result."""
        return tuple(check for check in self.checks if check.result == result)

    @cached_property
    def conclusion(self) -> Conclusion:
        """A failure first, then what is missing or unknown; ok where all checks that this machine can run passed."""
        failed, unknown, passed = self.of("failed"), self.of("unknown"), self.of("passed")
        if failed:
            text = f"{len(failed)} of {len(self.checks)} checks failed: {_names(failed)}"
            return Conclusion(verdict="critical", reason=f"{text}{self._unproved()}")
        if self.stopped:
            return Conclusion(verdict="incomplete", reason=f"stopped by the user after {_count(passed)}")
        if self.gpu_asked and not self.gpus:
            return Conclusion(verdict="incomplete", reason=f"--gpu: {self._why_no_gpu()}")
        if unknown:
            text = f"{_count(passed)} passed; unknown: {_names(unknown)}"
            return Conclusion(verdict="unknown", reason=f"{text}{self._unproved()}")
        if not passed:
            return Conclusion(verdict="unknown", reason=f"no check could be run here{self._unproved()}")
        return Conclusion(verdict="ok", reason=f"{self._proved(passed)}{self._unproved()}")

    @property
    def exit_code(self) -> int:
        """That of the command."""
        return self.conclusion.exit_code

    def _proved(self, passed: Sequence[SelftestCheck]) -> str:
        where = f"on {self.gpus} GPU{'s' * (self.gpus > 1)}" if self.gpus else "on CPUs alone"
        over = f" over {self.backend}" if self.backend else ""
        return f"{len(passed)} of {len(self.checks)} checks passed {where}{over}"

    def _unproved(self) -> str:
        """What was not proved: no reader may take a pass on CPUs for one of GPUs."""
        left = self.of("not-run")
        of_gpus = [check for check in left if check.needs_gpu]
        others = [check for check in left if not check.needs_gpu]
        if not self.gpus and of_gpus:
            said = [f"NO GPU PROVED, {_count(of_gpus)} not run that need{'s' * (len(of_gpus) == 1)} one"]
        else:
            said = [f"not run: {_names(of_gpus)}"] if of_gpus else []
        said += [f"left out: {_names(others)}"] if others else []
        return "".join(f"; {text}" for text in said)

    def _why_no_gpu(self) -> str:
        of_gpus = [check for check in self.of("not-run") if check.needs_gpu]
        return f"no GPU that torch can use ({of_gpus[0].seen})" if of_gpus else "no GPU that torch can use"

    def to_json(self) -> Json:
        """With the verdict and its reason."""
        content = super().to_json()
        verdict = {"verdict": self.conclusion.verdict, "verdict_reason": self.conclusion.reason}
        return {"schema": self.SCHEMA, **verdict, **{key: one for key, one in content.items() if key != "schema"}}


def _count(checks: Sequence[SelftestCheck]) -> str:
    return f"{len(checks)} check{'s' * (len(checks) != 1)}"


def _names(checks: Sequence[SelftestCheck]) -> str:
    more = len(checks) - _MOST_NAMES
    return ", ".join(check.id for check in checks[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
