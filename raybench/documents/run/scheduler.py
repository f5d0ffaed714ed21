"""The job of a scheduler that a run was part of, so that its logs, nodes and accounting are found again."""

from collections.abc import Mapping

from raybench.documents.part import FieldwisePart

_MOST_LETTERS = 4000  # a list of nodes in brief; Slurm's own for a thousand nodes with gaps is shorter
# Variables of a job, by scheduler: its id, its nodes in brief, its queue.
_VARIABLES: tuple[tuple[str, str, str, str], ...] = (
    ("slurm", "SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_JOB_PARTITION"),
    ("kubernetes", "RAYBENCH_KUBERNETES_JOB", "", "RAYBENCH_KUBERNETES_QUEUE"),
)

_TITLES = {"slurm": "Slurm", "kubernetes": "Kubernetes"}


class SchedulerJob(FieldwisePart, frozen=True, kw_only=True):
    """A job. ``name`` is the scheduler's; ``node_list`` and ``partition`` as it writes them, empty if unknown."""

    name: str
    job_id: str
    node_list: str = ""
    partition: str = ""

    @property
    def in_brief(self) -> str:
        """``Slurm job 1417 (gpu)``; the partition, of Kubernetes the queue, where it is known."""
        where = f" ({self.partition})" if self.partition else ""
        return f"{_TITLES.get(self.name, self.name)} job {self.job_id}{where}"


def job_of_environment(environment: Mapping[str, str]) -> SchedulerJob | None:
    """The job that this process is part of, by the variables that schedulers set; None where it is in none."""
    for name, job, nodes, partition in _VARIABLES:
        if environment.get(job):
            told = [environment.get(variable, "")[:_MOST_LETTERS] for variable in (job, nodes, partition)]
            return SchedulerJob(name=name, job_id=told[0], node_list=told[1], partition=told[2])
    return None
