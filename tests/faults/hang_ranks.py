"""``python -m tests.faults.hang_ranks [all | NAME...]``: hangs of ``hang_cases`` at once, and what is said of each.

The ranks are forked by raybench's own ``RankProcesses``, from this process. Prints a JSON object by name.
"""

import json
import os
import selectors
import socket
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch._dynamo  # what DDP imports when it is first used, once for all ranks
import torch.distributed.checkpoint
import torch.distributed.tensor  # noqa: F401 - what DDP imports, too

from raybench.benchmarks.rank import run as rank_module
from raybench.benchmarks.rank.assignment import RankAssignment
from raybench.benchmarks.rank.progress import ProgressSlot
from raybench.execution.incidents.activity_text import activity_text
from raybench.execution.incidents.doing import Seen
from raybench.execution.incidents.hang import hang, mismatches
from raybench.execution.incidents.incident import culprits
from raybench.execution.node_actors.messages import StartRanks
from raybench.execution.ranks.rank_activity import activities
from raybench.execution.ranks.rank_process import RankProcesses
from tests.faults.hang_cases import CASES, Case, plans
from tests.processes.waiting import state_of

_VARIABLE = "RAYBENCH_TEST_HANG"
_START_SECONDS = 90.0
_QUIET_SECONDS = 3.0
_LOOKS_ALONE = 3


@dataclass(kw_only=True)
class Started:
    """The ranks of one case."""

    case: Case
    request: StartRanks
    processes: RankProcesses
    said: dict[str, Any] = field(default_factory=dict)

    def look(self) -> None:
        """What raybench says of them, as ``Launch`` does when a limit is over."""
        begun = time.monotonic()
        positions = self.processes.positions()
        found_activities = activities(self.processes.watched())
        seen = [
            Seen(node=f"node-{position.rank + 1}", position=position, activity=activity)
            for position, activity in zip(positions, found_activities, strict=True)
        ]
        world_size, plan = self.case.world_size, self.request.plan
        broken = any(one.state in ("X", "Z") for one in positions)
        named = [(one.node, one.position) for one in seen]
        found = mismatches(seen, plan, world_size=world_size) if broken else []
        found = found or culprits(named, plan, world_size=world_size) or hang(seen, plan, world_size=world_size)
        self.said = {
            "seconds": time.monotonic() - begun,
            "findings": [one.to_finding().to_json() for one in found],
            "activity": activity_text(seen),
        }


def main(names: list[str]) -> None:
    """Fork all cases, wait until they stand still, look at them side by side, end them."""
    _let_faults_in()
    chosen = [case for case in CASES if case.name in names or names == ["all"] or (case.in_ci and not names)]
    with tempfile.TemporaryDirectory(prefix="hangs-") as folder, selectors.DefaultSelector() as selector:
        tempfile.tempdir = folder  # of the ranks, too: they are forked
        started = [_start(case, Path(folder, str(number)), selector) for number, case in enumerate(chosen)]
        _hear(selector, started)
        looking = [threading.Thread(target=one.look) for one in started]
        for thread in looking:
            thread.start()
        for thread in looking:
            thread.join()
        said = {one.case.name: one.said for one in started}
        for one in sorted(started, key=lambda one: one.case.world_size)[-_LOOKS_ALONE:]:
            one.look()
            said[one.case.name] = said[one.case.name] | {"seconds_alone": one.said["seconds"]}
        for one in started:
            one.processes.stop()
    print(json.dumps(said))


def _let_faults_in() -> None:
    real = rank_module.run_rank

    def run_rank(assignment: RankAssignment, plan: Any, emit: Any, progress: ProgressSlot) -> bool:
        next(case for case in CASES if case.name == os.environ[_VARIABLE]).fault(assignment.rank)
        return real(assignment, plan, emit, progress)

    rank_module.run_rank = run_rank


def _start(case: Case, folder: Path, selector: selectors.BaseSelector) -> Started:
    folder.mkdir()
    (folder / "checkpoints").mkdir()
    held = socket.create_server(("127.0.0.1", 0))
    assignments = tuple(
        RankAssignment(
            rank=rank,
            local_rank=rank,
            world_size=case.world_size,
            ranks_on_machine=case.world_size,
            backend="gloo",
            master_address="127.0.0.1",
            master_port=held.getsockname()[1],
            timeout_seconds=600.0,
        )
        for rank in range(case.world_size)
    )
    request = StartRanks(
        assignments=assignments,
        plan=plans(folder / "checkpoints")[case.plan],
        variables={_VARIABLE: case.name, "GLOO_SOCKET_IFNAME": "lo"},
        log_folder=str(folder),
        log_limit_bytes=2**20,
    )
    processes = RankProcesses(selector, lambda _: None)
    processes.start(request, held)
    return Started(case=case, request=request, processes=processes)


def _hear(selector: selectors.BaseSelector, started: list[Started]) -> None:
    """Until every hang stands still, or all time for that is over."""
    deadline = time.monotonic() + _START_SECONDS
    last: list[Any] = []
    changed = time.monotonic()
    hung = [one for one in started if one.case.rule is not None]
    while time.monotonic() < deadline and time.monotonic() - changed < _QUIET_SECONDS:
        for key, _ in selector.select(0.1):
            key.data()
        now = [(one.slot.read(), one.slot.operations()) for each in hung for one in each.processes.watched()]
        if now != last or not started or any(_is_on_its_way(one) for one in hung):
            last, changed = now, time.monotonic()


def _is_on_its_way(one: Started) -> bool:
    """Whether a rank has or wants a processor: beside other work it may say nothing for seconds, and go on."""
    states = [state_of(each.pid) for each in one.processes.watched() if each.pid is not None]
    return not one.case.name.startswith("busy ") and not {"R", "D"}.isdisjoint(states)


if __name__ == "__main__":
    main(sys.argv[1:])
