"""What Slurm says of a job, and why one waits. Pure."""

import re
from dataclasses import dataclass

# Those after which nothing more comes: job_state in squeue(1).
_ENDED = {
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED"),
    *("REVOKED", "TIMEOUT"),
}
_FIELD = re.compile(r"(?:^|\s)(JobState|Reason|Partition|NodeList|BatchHost|ExitCode|StartTime)=(\S*)")
# Reasons of JOB REASON CODES in squeue(1), by how they begin: what is waited for, and whether waiting alone helps.
_REASONS: tuple[tuple[str, str], ...] = (
    ("Priority", "jobs with a higher priority are before it"),
    ("Resources", "it is next, and waits for nodes to become free"),
    ("ReqNodeNotAvail", "a node that it needs is down, drained or reserved: 'sinfo -R' says why"),
    ("BeginTime", "its begin time has not come"),
    ("Dependency", "it waits for another job"),
    ("JobHeldUser", "it is held by its user: 'scontrol release JOB' lets it go; it does not start by itself"),
    ("JobHeldAdmin", "it is held by an administrator; it does not start by itself"),
    ("JobHoldMaxRequeue", "it failed to start too often; it does not start by itself"),
    ("PartitionTimeLimit", "--time is more than the partition allows: it never starts; give less ('sinfo -o %P,%l')"),
    ("PartitionNodeLimit", "--nodes is more than the partition allows: it never starts; give fewer ('sinfo')"),
    ("PartitionDown", "the partition is down; an administrator has to bring it up"),
    ("PartitionInactive", "the partition is inactive; an administrator has to bring it up"),
    ("NodeDown", "a node that it needs is down: 'sinfo -R' says why"),
    ("BadConstraints", "no node has what it asks for: it never starts; look at --gpus-per-node and --sbatch-option"),
    ("InvalidAccount", "the account is not valid: it never starts; give another with --account"),
    ("InvalidQOS", "the quality of service is not valid: it never starts"),
    ("Licenses", "it waits for a license"),
    ("Reservation", "it waits for its reservation"),
    ("QOS", "a limit of its quality of service is reached: it waits for jobs of that to end"),
    ("Assoc", "a limit of its account or user is reached: it waits for jobs of that to end"),
    ("MaxCpuPerAccount", "a limit of its account is reached: it waits for jobs of that to end"),
    ("Nodes_required_for_job_are_DOWN", "nodes that it needs are down, drained or reserved: 'sinfo -R' says why"),
    ("launch_failed_requeued_held", "it could not be started and is held: 'scontrol show job JOB' says where"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmJob:
    """A job as ``scontrol show job`` gives it. ``reason`` is empty where Slurm says None."""

    state: str
    reason: str = ""
    partition: str = ""
    node_list: str = ""
    exit_code: str = ""

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state in _ENDED

    @property
    def waits(self) -> bool:
        """Whether it has no nodes yet."""
        return self.state in ("PENDING", "CONFIGURING", "REQUEUED", "SPECIAL_EXIT")

    def in_brief(self) -> str:
        """``PENDING: Resources (it is next, and waits for nodes to become free)``, or ``RUNNING on node[1-3]``."""
        if self.state == "RUNNING" or not self.reason:
            return f"{self.state} on {self.node_list}" if self.node_list else self.state
        meaning = explained(self.reason)
        return f"{self.state}: {self.reason}{f' ({meaning})' if meaning else ''}"


def job_of(text: str) -> SlurmJob | None:
    """The job in what ``scontrol -o show job ID`` prints; None where it names no state.

    Sample (22.05): ``JobId=3 JobName=raybench UserId=root(0) ... JobState=PENDING Reason=Resources Dependency=(null)``
    """
    found: dict[str, str] = {}
    for name, value in _FIELD.findall(text):
        found.setdefault(name, "" if value in ("(null)", "None", "Unknown") else value)
    if not found.get("JobState"):
        return None
    return SlurmJob(
        state=found["JobState"],
        reason=found.get("Reason", ""),
        partition=found.get("Partition", ""),
        node_list=found.get("NodeList", ""),
        exit_code=found.get("ExitCode", ""),
    )


def explained(reason: str) -> str:
    """What a reason of Slurm's means for who waits; empty for one that is not known."""
    return next((text for name, text in _REASONS if reason.startswith(name)), "")
