"""The batch script of a job: what it asks of Slurm, what it sets up, and the one program that it becomes. Pure."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from raybench.errors import UsageError
from raybench.launchers.slurm.time_limit import seconds_of, warning_seconds

_VALUE = re.compile(r"[\w@%.,:/=+*&|!()\[\]~^-]+")
_OWN = ("output", "error", "signal", "open-mode", "chdir", "array", "wrap", "nodes", "ntasks-per-node", "requeue")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmRequest:
    """What is asked of Slurm. ``folder`` is seen by this machine and by all nodes, at the same path.

    ``options`` are more options of sbatch, ``srun_options`` of the srun that starts Ray on a node, ``setup`` lines of
    shell that come first (``module load cuda``). ``python`` has raybench on every node. ``path`` is its PYTHONPATH.
    Raises UsageError for what cannot stand in a script.
    """

    nodes: int = 1
    gpus_per_node: int | None = None
    partition: str | None = None
    account: str | None = None
    time: str | None = None
    name: str = "raybench"
    exclusive: bool = True
    options: tuple[str, ...] = ()
    srun_options: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    python: str
    path: str = ""
    folder: Path
    start_seconds: float = 120.0

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise UsageError(f"--nodes {self.nodes} is not a number of nodes; give 1 or more")
        if self.gpus_per_node is not None and self.gpus_per_node < 0:
            raise UsageError(f"--gpus-per-node {self.gpus_per_node} is not a number of GPUs")
        for name in ("partition", "account", "time", "name"):
            _check(f"--{name}", getattr(self, name))
        for option in (*self.options, *self.srun_options):
            _check_option(option)
        for line in self.setup:
            if "\n" in line or "\0" in line:
                raise UsageError("--setup takes one line of shell; give it again for each line")
        if re.search(r"[\s%\\]", str(self.folder)):
            raise UsageError(
                f"the folder {str(self.folder)!a} has a space, % or \\ in its path, which sbatch does not take for its "
                "output; choose another with --output-dir"
            )

    @property
    def output(self) -> Path:
        """Where Slurm writes what the job prints; ``%j`` is its id."""
        return self.folder / "slurm-%j.out"


def job_folder(folder: Path, job_id: str) -> Path:
    """Where a job keeps its results."""
    return folder / f"slurm-{job_id}"


def job_script(request: SlurmRequest, words: Sequence[str]) -> str:
    """The script that runs ``raybench WORDS`` on the nodes of a job."""
    program = [
        *(request.python, "-P", "-m", "raybench.launchers.slurm.allocation"),
        *("--folder", str(request.folder), "--start-seconds", f"{request.start_seconds:g}"),
        *(f"--srun-option={option}" for option in request.srun_options),
        *("--", *words),
    ]
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {option}" for option in _options(request)),
        *([f"export PYTHONPATH={shlex.quote(request.path)}"] if request.path else []),
        *request.setup,
        "# from here on one program: it has Slurm's signals, raises Ray on the nodes, and takes it down again",
        f"exec {shlex.join(program)}",
    ]
    return "\n".join(lines) + "\n"


def _options(request: SlurmRequest) -> Iterator[str]:
    limit = seconds_of(request.time) if request.time else None
    yield f"--job-name={request.name}"
    yield f"--nodes={request.nodes}"
    yield "--ntasks-per-node=1"
    for name, value in (
        ("gpus-per-node", request.gpus_per_node),
        ("partition", request.partition),
        ("account", request.account),
        ("time", request.time),
    ):
        if value is not None:
            yield f"--{name}={value}"
    if request.exclusive:
        yield "--exclusive"
    yield f"--output={request.output}"
    yield "--open-mode=append"
    yield f"--signal=B:TERM@{warning_seconds(limit)}"
    yield "--no-requeue"
    yield from (option if option.startswith("-") else f"--{option}" for option in request.options)


def _check(option: str, value: str | None) -> None:
    if value is not None and not _VALUE.fullmatch(value):
        raise UsageError(f"{option} {value!a} cannot stand in a batch script; it takes letters, digits and -_.,:/=")


def _check_option(option: str) -> None:
    """``--gres=gpu:8`` or ``gres=gpu:8``; a word that Slurm would take for two is refused."""
    name = option.lstrip("-").partition("=")[0]
    if not _VALUE.fullmatch(option) or not name:
        raise UsageError(f"--sbatch-option {option!a} is not NAME=VALUE without spaces, such as qos=high or gres=gpu:8")
    if name in _OWN:
        raise UsageError(f"--sbatch-option {option!a}: raybench sets {name} itself; see 'raybench launch slurm --help'")
