"""``raybench run`` on a node of a lab: started, watched and read from outside."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.command import UNDRAWN
from tests.lab.cluster import Lab
from tests.lab.node import Node
from tests.lab.process import Process


@dataclass(kw_only=True)
class LabRun:
    """A started run. Its output folder and what it prints lie in the lab's shared folder."""

    process: "subprocess.Popen[str]"
    folder: Path
    lab: Lab

    @property
    def out(self) -> str:
        """Standard output so far."""
        return (self.folder / "out").read_text()

    @property
    def errors(self) -> str:
        """Standard error so far."""
        return (self.folder / "errors").read_text()

    def samples(self) -> list[dict[str, Any]]:
        """Lines of samples.jsonl so far."""
        found = list(self.folder.glob("runs/*/samples.jsonl"))
        text = found[0].read_text() if found else ""
        lines = text[: text.rfind("\n") + 1].splitlines()  # the last one may still be on its way
        return [json.loads(line) for line in lines]

    def result(self) -> dict[str, Any]:
        """Its result.json."""
        (path,) = self.folder.glob("runs/*/result.json")
        result: dict[str, Any] = json.loads(path.read_text())
        return result

    def wait_for_points(self, count: int, seconds: float = 120.0) -> None:
        """Return when so many points are measured. Raises TimeoutError when it does not come to that."""
        deadline = time.monotonic() + seconds
        while len(self.samples()) < count:
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise TimeoutError(f"no {count} points: {self.out[-1000:]}{self.errors[-2000:]}")
            time.sleep(0.05)

    def finish(self, seconds: float) -> int:
        """The exit status. Raises subprocess.TimeoutExpired when it does not end in time."""
        return self.process.wait(seconds)

    def rank(self, node: Node, number: int) -> Process:
        """The process of a rank on a node."""
        for process in node.leftover_processes():
            try:
                if Path(f"/proc/{process.pid}/fd/1").readlink().name == f"output-rank-{number}.log":
                    return process
            except OSError:
                continue
        raise ProcessLookupError(f"rank {number} is not on {node.hostname}")


@contextmanager
def lab_run(lab: Lab, *arguments: str, node: int = 0, verb: str = "run") -> Iterator[LabRun]:
    """Start ``raybench run``, or another command with a run, on a node, joined to the lab's Ray cluster.

    Its report has no figures.
    """
    folder = lab.folder.shared / f"run-{os.urandom(4).hex()}"
    folder.mkdir()
    command = ["python", "-c", UNDRAWN, verb, "--address", lab.ray_address, "--output-dir", folder / "runs", *arguments]
    with (folder / "out").open("w") as out, (folder / "errors").open("w") as errors:
        process = lab.nodes[node].popen(list(map(str, command)), stdout=out, stderr=errors)
    try:
        yield LabRun(process=process, folder=folder, lab=lab)
    finally:
        process.terminate()
        process.wait(60)


def nothing_left(lab: Lab, seconds: float, but: Callable[[Process], bool] = lambda _: False) -> bool:
    """Whether all that runs left on the nodes is gone in time."""
    deadline = time.monotonic() + seconds
    while left := [one for found in lab.leftover_processes().values() for one in found if not but(one)]:
        if time.monotonic() > deadline:
            print("left:", *left, sep="\n  ")
            return False
        time.sleep(0.1)
    return True
