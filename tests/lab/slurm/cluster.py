"""Slurm on a lab: ``with slurm_lab(nodes=3) as cluster`` is a controller on node 1 and slurmd on every node.

The daemons are the distribution's (on Debian ``slurmctld slurmd slurm-client munge``), with a configuration and a
key of their own on each node. Whatever they start lives in the nodes' namespaces and ends with the lab.
"""

import base64
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

from tests.lab.cluster import Lab
from tests.lab.node import Node
from tests.lab.requirement import lab_available

PARTITION = "lab"
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "scancel")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KEY = "/etc/munge/munge.key"
_CONFIG = """
ClusterName=lab
SlurmctldHost={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
StateSaveLocation=/var/lab-slurm/state
SlurmdSpoolDir=/var/lab-slurm/spool
SlurmctldPidFile=/run/lab-slurmctld.pid
SlurmdPidFile=/run/lab-slurmd.pid
SlurmctldLogFile=/var/lab-slurm/slurmctld.log
SlurmdLogFile=/var/lab-slurm/slurmd.log
ReturnToService=2
SchedulerParameters=sched_interval=1
KillWait={kill_wait}
InactiveLimit=0
MinJobAge=300
SlurmdTimeout=30
{nodes}
PartitionName={partition} Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def slurm_available() -> str | None:
    """Why no Slurm can be had here; None where it can."""
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    if missing:
        packages = "slurmctld slurmd slurm-client munge"
        return f"Slurm needs {', '.join(missing)}: apt-get install --no-install-recommends {packages}"
    return lab_available()


@dataclass(kw_only=True)
class SlurmCluster:
    """A lab with Slurm. The controller runs on ``nodes[0]``; ``shared`` is a folder that all nodes see."""

    lab: Lab

    @property
    def nodes(self) -> list[Node]:
        """The machines, as the lab has them."""
        return self.lab.nodes

    @property
    def shared(self) -> Path:
        """A folder that every node sees at the same path, as a site's file server gives."""
        return self.lab.folder.shared

    def run(self, *words: str | Path, timeout: float = 60.0) -> CompletedProcess[str]:
        """A command on the controller's machine, in the shared folder. Raises CalledProcessError where it fails."""
        return self.nodes[0].run(list(words), timeout=timeout, folder=self.shared, check=True)

    def submit(self, *words: str | Path) -> str:
        """``sbatch`` with these words. Returns the job's id."""
        return self.run("sbatch", "--parsable", *words).stdout.strip().partition(";")[0]

    def job_state(self, job: str) -> str:
        """What ``scontrol`` calls the state of a job, such as RUNNING."""
        said = self.run("scontrol", "-o", "show", "job", job).stdout
        return next(word.partition("=")[2] for word in said.split() if word.startswith("JobState="))

    def node_state(self, node: str) -> str:
        """What ``sinfo`` calls the state of a node, such as ``idle`` or ``drained``."""
        return self.run("sinfo", "-h", "-N", "-n", node, "-o", "%T").stdout.split()[0]

    def wait_for_job(self, job: str, states: Sequence[str], seconds: float = 60.0) -> str:
        """Return the job's state once it is one of these. Raises TimeoutError where it is not in time."""
        deadline = time.monotonic() + seconds
        while (state := self.job_state(job)) not in states:
            if time.monotonic() > deadline:
                raise TimeoutError(f"job {job} is {state}, not {' or '.join(states)}")
            time.sleep(0.1)
        return state


@contextmanager
def slurm_lab(nodes: int = 3, *, cpus: int = 2, kill_wait_seconds: int = 30) -> Iterator[SlurmCluster]:
    """Nodes with Slurm on them, idle. ``cpus`` is what each node says that it has, whatever the machine has."""
    with Lab(nodes=nodes) as lab:
        cluster = SlurmCluster(lab=lab)
        key = secrets.token_bytes(256)
        text = _configuration(lab, cpus, kill_wait_seconds)
        for node in lab.nodes:
            _start_munge(node, text, key)
        _start(lab.nodes[0], "slurmctld")
        for node in lab.nodes:
            _start(node, "slurmd", "-N", node.hostname)
        _wait_idle(cluster, seconds=30.0)
        yield cluster


def _configuration(lab: Lab, cpus: int, kill_wait: int) -> str:
    lines = [f"NodeName={node.hostname} NodeAddr={node.address} CPUs={cpus} State=UNKNOWN" for node in lab.nodes]
    controller = f"{lab.nodes[0].hostname}({lab.nodes[0].address})"
    return _CONFIG.format(controller=controller, nodes="\n".join(lines), partition=PARTITION, kill_wait=kill_wait)


def _start_munge(node: Node, configuration: str, key: bytes) -> None:
    """The key, Slurm's files and munge's daemon, on one node."""
    made = (
        "umask 077; mkdir -p /etc/munge /etc/slurm /var/lab-slurm/state /var/lab-slurm/spool /run/munge; "
        f"rm -f {_KEY}; base64 -d > {_KEY}; chmod 755 /run/munge /etc/slurm; chown root: /etc/munge {_KEY}"
    )
    node.run(["sh", "-c", made], text_in=base64.b64encode(key).decode(), check=True)
    node.run(["sh", "-c", "umask 022; cat > /etc/slurm/slurm.conf"], text_in=configuration, check=True)
    own = [f"--{name}=/run/munge/{name}" for name in ("pid-file", "log-file", "seed-file")]
    node.run(["munged", f"--key-file={_KEY}", "--socket=/run/munge/munge.socket.2", *own], check=True)


def _start(node: Node, *words: str) -> None:
    """A daemon that goes into the background by itself."""
    node.run(["sh", "-c", f"exec {' '.join(words)} >/var/lab-slurm/{words[0]}.out 2>&1"], check=True)


def _wait_idle(cluster: SlurmCluster, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    names = [node.hostname for node in cluster.nodes]
    while True:
        said = cluster.nodes[0].run(["sinfo", "-h", "-N", "-o", "%N %T"]).stdout.split("\n")
        states = dict(line.split() for line in said if line)
        if all(states.get(name) == "idle" for name in names):
            return
        if time.monotonic() > deadline:
            log = cluster.nodes[0].run(["tail", "-5", "/var/lab-slurm/slurmctld.log"]).stdout
            raise TimeoutError(f"Slurm's nodes are {states}: {log}")
        time.sleep(0.1)
