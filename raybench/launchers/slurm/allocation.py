"""What a batch script becomes: raise Ray on the nodes of the job, run the command, take Ray down, say how it ended.

``python -m raybench.launchers.slurm.allocation --folder DIR -- run --suite all_reduce``. One srun a node, so that a
node that cannot be reached is named and stops no other. SIGTERM (``scancel``, or Slurm's warning before the time
limit) is handed to the command, which keeps what it has measured.
"""

import argparse
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from raybench.errors import IncompleteRunError, RaybenchError
from raybench.launchers.command_words import placed_words
from raybench.launchers.ended_job import EndedJob, JobNode
from raybench.launchers.slurm.messages import NodeOrder, bracketed
from raybench.launchers.slurm.node_step import NodeStep
from raybench.launchers.slurm.script import job_folder

_ASK_SECONDS = 30.0
_COMMAND_END_SECONDS = 25.0  # after SIGTERM; then what it started is ended with its nodes
_STEPS_END_SECONDS = 40.0
_ROOM_SECONDS = 20.0  # for srun itself to reach a node, beside what Ray takes there
_POLL_SECONDS = 0.1
_DISCARD = 9  # a port to look the way up by; nothing is sent there


def main() -> int:
    """Entry point of the batch script. Returns the exit code of the command; 3 where it could not be started."""
    options = _parser().parse_args()
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: stopping.append(number))
    allocation = Allocation.of_environment(os.environ, options)
    nodes: tuple[JobNode, ...] = ()
    reason = ""
    try:
        code, nodes = allocation.conduct(stopping)
    except RaybenchError as error:
        code, reason = error.exit_code, str(error)
        nodes = allocation.nodes_so_far
        sys.stderr.write(f"raybench: {error}\n")
    ended = EndedJob(job_id=allocation.job_id, command=tuple(options.words), exit_code=code, reason=reason, nodes=nodes)
    ended.write(allocation.folder)
    return code


class Allocation:
    """The nodes of this job, and what is started on them."""

    def __init__(self, *, job_id: str, node_list: str, folder: Path, options: argparse.Namespace) -> None:
        self.job_id = job_id
        self.folder = folder
        self._node_list = node_list
        self._options = options
        self._steps: list[NodeStep] = []

    @classmethod
    def of_environment(cls, environment: Mapping[str, str], options: argparse.Namespace) -> "Allocation":
        """That of the variables that Slurm gives a batch script. Makes the job's folder."""
        job_id = environment.get("SLURM_JOB_ID", "")
        if not job_id.isdigit():
            sys.exit("raybench: this is started by the batch script of 'raybench launch slurm', in a job of Slurm")
        folder = job_folder(options.folder, job_id)
        folder.mkdir(parents=True, exist_ok=True)
        return cls(job_id=job_id, node_list=environment.get("SLURM_JOB_NODELIST", ""), folder=folder, options=options)

    @property
    def nodes_so_far(self) -> tuple[JobNode, ...]:
        """The nodes that were started, with what is wrong with each."""
        return tuple(JobNode(name=step.name, reason=step.problem) for step in self._steps)

    def conduct(self, stopping: list[int]) -> tuple[int, tuple[JobNode, ...]]:
        """Ray up, the command, Ray down. Raises IncompleteRunError where the nodes do not come up."""
        names = _hostnames(self._node_list)
        try:
            head = self._raise_ray(names, stopping)
            code = self._command(head, len(names), stopping)
            return code, self.nodes_so_far
        finally:
            self._take_down()

    def _raise_ray(self, names: Sequence[str], stopping: list[int]) -> NodeStep:
        token = secrets.token_hex(32)
        addresses = _addresses(names)
        peer = f"{bracketed(addresses.get(names[1], names[1]))}:{_DISCARD}" if len(names) > 1 else ""
        head = self._start(names[0], NodeOrder(name=names[0], token=token, job=self.job_id, toward=peer))
        self._await([head], stopping)
        for name in names[1:]:
            self._start(name, NodeOrder(name=name, token=token, job=self.job_id, head=head.address))
        self._await(self._steps, stopping)
        return head

    def _start(self, name: str, order: NodeOrder) -> NodeStep:
        import msgspec

        whole = msgspec.structs.replace(order, start_seconds=self._options.start_seconds)
        step = NodeStep(name, whole, self._options.srun_option, self.folder / f"node-{name}.err")
        self._steps.append(step)
        return step

    def _await(self, steps: Sequence[NodeStep], stopping: list[int]) -> None:
        deadline = time.monotonic() + self._options.start_seconds + _ROOM_SECONDS
        while any(step.starting for step in steps):
            if stopping:
                raise IncompleteRunError("the job was told to end before Ray was up on its nodes")
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_SECONDS)
        bad = [f"{step.name}: {step.problem}" for step in steps if step.problem]
        if bad:
            raise IncompleteRunError(
                f"Ray did not come up on {len(bad)} of {len(steps)} nodes, and nothing was measured. {'; '.join(bad)}"
            )

    def _command(self, head: NodeStep, count: int, stopping: list[int]) -> int:
        """Run the command beside the head. Returns its exit code; 3 where it had to be killed."""
        words = placed_words(self._options.words, nodes=count, output_dir=self.folder)
        environment = os.environ | {
            "RAY_ADDRESS": head.address,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": head.token_path,
        }
        own = (signal.SIGTERM, signal.SIGINT)
        command = subprocess.Popen(
            [sys.executable, "-P", "-m", "raybench", *words],
            stdin=subprocess.DEVNULL,
            env=environment,
            preexec_fn=lambda: [signal.signal(number, signal.SIG_DFL) for number in own] and None,  # noqa: PLW1509
        )
        deadline: float | None = None
        while command.poll() is None:
            if stopping and deadline is None:
                command.send_signal(signal.SIGTERM)
                deadline = time.monotonic() + _COMMAND_END_SECONDS
            if deadline is not None and time.monotonic() > deadline:
                command.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                command.wait(_POLL_SECONDS)
        return command.returncode if command.returncode >= 0 else 3

    def _take_down(self) -> None:
        """End every node's task by the end of its input, and srun itself where that does not help."""
        for step in self._steps:
            step.let_go()
        deadline = time.monotonic() + _STEPS_END_SECONDS
        for step in self._steps:
            step.end(max(deadline - time.monotonic(), 0.1))


def _hostnames(node_list: str) -> list[str]:
    """``node1 node2`` of ``node[1-2]``. Raises IncompleteRunError where Slurm does not say."""
    names = _asked("scontrol", "show", "hostnames", node_list).split()
    if not names:
        raise IncompleteRunError(f"'scontrol show hostnames {node_list}' names no node; nothing was measured")
    return names


def _addresses(names: Sequence[str]) -> dict[str, str]:
    """NodeAddr of nodes, by name: how Slurm itself reaches them. Empty where it does not say."""
    with contextlib.suppress(IncompleteRunError):
        rows = _asked("scontrol", "-o", "show", "node", ",".join(names[:2])).splitlines()
        fields = [dict(word.split("=", 1) for word in row.split() if "=" in word) for row in rows]
        return {row["NodeName"]: row["NodeAddr"] for row in fields if {"NodeName", "NodeAddr"} <= row.keys()}
    return {}


def _asked(*words: str) -> str:
    """What one of Slurm's programs prints. Raises IncompleteRunError where it fails or does not answer."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_ASK_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", "") or error).strip()
        raise IncompleteRunError(f"'{' '.join(words)}' failed: {said[:500]}") from error
    return done.stdout


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="raybench.launchers.slurm.allocation", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--start-seconds", type=float, default=120.0)
    parser.add_argument("--srun-option", action="append", default=[])
    parser.add_argument("words", nargs="+")
    return parser


if __name__ == "__main__":
    sys.exit(main())
