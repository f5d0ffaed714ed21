"""A run whose suspects are measured again with healthy partners, and which goes on without those at fault."""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from msgspec.structs import replace as changed

from raybench.config import RunConfig
from raybench.documents.run.cluster import DroppedNode
from raybench.documents.run.isolation import Continuation, Isolation, Suspicion
from raybench.documents.run.result import RunResult
from raybench.errors import NodeMissingError, RaybenchError, UsageError
from raybench.peers.isolation.findings import at_fault, suspicion_of, with_continuation, with_isolation
from raybench.peers.isolation.reading import Reading, reading_of
from raybench.peers.isolation.steps import Group, next_group, partners_of
from raybench.peers.isolation.suspect import Suspect, lost_nodes, message_bytes_of, suspects_of
from raybench.run_folder import RunFolder, new_run_id
from raybench.services.one_run import FinishedRun, keep_again, measured, run_once
from raybench.units import parse_bytes

if TYPE_CHECKING:
    from raybench.execution.supervisor import Display
    from raybench.processes.interrupt import Interrupt

FOLDER = "isolation"  # in the run's own: the measurements, a folder each
MOST_SECONDS = 180.0  # of all measurements of a run: none is begun after that
_GROUP_TIMEOUT_SECONDS = 60.0
_SMALLER = 16  # the message of a measurement after one that took too long with a slow node
_LEAST_BYTES = 65536
_BLOCKS, _WARMUP = 9, 1  # the interval of nine blocks is moved by no single stall
_SIZES = "1M"  # of all_reduce, beside which ranks time work of their own as well
_EMULATED = "the nodes are emulated: all of them are this machine, and there is no other one to measure with"
_BY_USER = "stopped by its user"


def run_isolating(config: RunConfig, *, interrupt: "Interrupt", display: "Callable[[], Display]") -> FinishedRun:
    """Do a run, measure again whom it accuses, and go on without those at fault where that is asked for.

    Returns the last run. Each has a folder of its own, and is kept before anything further is measured. Raises
    UsageError for a run that cannot be begun.
    """
    first = finished = run_once(config, interrupt=interrupt, display=display)
    dropped: list[DroppedNode] = []
    while (isolation := _isolation(config, finished, interrupt, display)) is not None:
        gone, stay = at_fault(finished.result, isolation, least=config.least_nodes)
        if config.continue_without:
            isolation = changed(isolation, not_dropped=tuple(stay))
        finished = _kept(finished, isolation)
        if not (config.continue_without and gone) or isolation.interrupted:
            break
        dropped += gone
        continued = _continuation(config, first.result, finished.result, dropped, isolation)
        try:
            finished = _continue(config, finished, continued, interrupt, display)
        except UsageError as error:
            return _with_remark(finished, f"the run could not go on without {_names(gone)}: {error}")
    return finished


def _continuation(
    config: RunConfig, first: RunResult, last: RunResult, dropped: Sequence[DroppedNode], isolation: Isolation
) -> Continuation:
    return Continuation(
        first_run_id=last.run_id,
        nodes_before=len(first.cluster.nodes),
        world_size_before=first.cluster.world_size,
        nodes_asked=config.nodes,
        dropped=tuple(dropped),
        isolation=isolation,
    )


def _continue(
    config: RunConfig,
    before: FinishedRun,
    continued: Continuation,
    interrupt: "Interrupt",
    display: "Callable[[], Display]",
) -> FinishedRun:
    """The same run without the nodes that were dropped, and ranks on each as before."""
    gone, nodes = {one.node for one in continued.dropped}, before.result.cluster.nodes
    left = tuple(node.name for node in nodes if node.name not in gone)
    chosen = replace(config, nodes=None, only_nodes=left, gpus_per_node=len(nodes[0].ranks))
    text = f"going on without {_names(continued.dropped)}: {len(left)} of {continued.nodes_before} nodes"
    finished = run_once(
        chosen,
        interrupt=interrupt,
        display=_saying(text, display),
        amend=lambda result: with_continuation(result, continued),
    )
    return _with_remark(finished, f"the run with {_names(continued.dropped)} is in {before.folder}")


def _isolation(
    config: RunConfig, finished: FinishedRun, interrupt: "Interrupt", display: "Callable[[], Display]"
) -> Isolation | None:
    """What became of the suspects of a run; None where there are none, or its user has ended it."""
    result = finished.result
    suspects = suspects_of(result)
    if not suspects or interrupt.received:
        return None
    lost = lost_nodes(result) if config.continue_without else ()
    began, found, stopped = time.monotonic(), [], ""
    isolator = _Isolator(config=config, finished=finished, suspects=suspects, interrupt=interrupt, display=display)
    for suspect in suspects:
        if suspect.node in lost:  # it is dropped without another word
            continue
        try:
            found.append(isolator.isolate(suspect, began + MOST_SECONDS))
            isolator = isolator.knowing(found[-1])
        except KeyboardInterrupt:
            stopped = _BY_USER
        if stopped or interrupt.received:
            stopped = _BY_USER
            break
    return Isolation(
        seconds=time.monotonic() - began, suspects=tuple(found), stopped=stopped, interrupted=bool(stopped)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Isolator:
    """Measures suspects of one run."""

    config: RunConfig
    finished: FinishedRun
    suspects: tuple[Suspect, ...]
    interrupt: "Interrupt"
    display: "Callable[[], Display]"

    def isolate(self, suspect: Suspect, deadline: float) -> Suspicion:
        """Measure a suspect until it is clear what to think of it."""
        result = self.finished.result
        first = reading_of(result, suspect.places, accused=suspect.node)
        partners = partners_of(suspect, [node.name for node in result.cluster.nodes], self.suspects)
        done: list[tuple[Group, Reading]] = []
        while True:
            beside = [reading for group, reading in done if group.with_suspect]
            without = next((reading for group, reading in done if not group.with_suspect), None)
            group, answer = next_group(suspect, partners, beside, without, first)
            why = self._why_not(deadline) if group is not None else None
            if why is not None:
                answer = replace(answer, outcome="unknown", reason=f"{why}; {answer.reason}" if done else why)
            if group is None or why is not None:
                return suspicion_of(suspect, answer, first, done)
            late = any(reading.broke and not reading.blamed for _, reading in done)
            done.append((group, self._reading(suspect, group, late=late)))

    def knowing(self, told: Suspicion) -> "_Isolator":
        """One that takes nobody for a partner who has been proven to be at fault."""
        proven = told.nodes if told.outcome == "confirmed" else ()
        suspects = (replace(one, is_open=one.is_open and one.nodes != proven) for one in self.suspects)
        return replace(self, suspects=tuple(suspects))

    def _why_not(self, deadline: float) -> str | None:
        """Why nothing more is measured; None where something can be."""
        if self.finished.result.cluster.emulated:
            return _EMULATED
        if self.interrupt.received:
            return _BY_USER
        return f"no more time: {MOST_SECONDS:.0f} s were over" if time.monotonic() > deadline else None

    def _reading(self, suspect: Suspect, group: Group, *, late: bool) -> Reading:
        """``late``: a measurement before was over before it was whole, and nobody had broken it."""
        names = ", ".join(group.nodes)
        place = f", {group.instead} in its place" if group.instead else ""
        text = f"isolating {suspect.name}: measuring {names}" + ("" if group.with_suspect else f", without it{place}")
        began = time.monotonic()
        try:
            result = self._measure(self._config(suspect, group, late=late), text)
        except RaybenchError as error:
            blamed = (error.node,) if isinstance(error, NodeMissingError) else ()
            return Reading(nodes=group.nodes, broke=str(error), blamed=blamed, seconds=time.monotonic() - began)
        reading = reading_of(result, suspect.places, accused=suspect.node)
        return replace(reading, nodes=group.nodes, seconds=time.monotonic() - began)

    def _measure(self, config: RunConfig, text: str) -> RunResult:
        """A short run over a group, kept below the run's own folder."""
        run_id = new_run_id()
        with contextlib.ExitStack() as undisturbed:
            folder = RunFolder(config.output_dir, run_id)
            with contextlib.closing(folder):
                record = measured(config, run_id, folder, self.interrupt, undisturbed, _saying(text, self.display))
            result = record.result()
            with contextlib.suppress(OSError):
                folder.write_json("result.json", result.to_json())
            folder.write_logs(record.logs)
        return result

    def _config(self, suspect: Suspect, group: Group, *, late: bool) -> RunConfig:
        """The same messages between the pairs as in the run, the same network and variables, and little else."""
        config, result = self.config, self.finished.result
        size = message_bytes_of(result)
        p2p_bytes = parse_bytes(config.p2p_size) if size is None else size
        if late:
            p2p_bytes = max(p2p_bytes // _SMALLER, min(p2p_bytes, _LEAST_BYTES))
        return RunConfig(
            nodes=None,
            only_nodes=group.nodes,
            gpus_per_node=len(result.cluster.nodes[0].ranks),
            backend=result.cluster.backend,
            address=config.address,
            master_port=config.master_port,
            env=config.env,
            allow_mixed=config.allow_mixed,
            log_limit=config.log_limit,
            suite="p2p_matrix,all_reduce" if "speed" in suspect.aspects else "p2p_matrix",
            sizes=_SIZES,
            p2p_size=str(p2p_bytes),
            placement="out",
            iters=None if size is None else config.iters,
            blocks=_BLOCKS,
            warmup=_WARMUP,
            timeout=_GROUP_TIMEOUT_SECONDS,
            output_dir=str(self.finished.folder / FOLDER),
            agent=False,
        )


def _saying(text: str, make_display: "Callable[[], Display]") -> "Callable[[], Display]":
    """A display that says first what begins now."""

    def make() -> "Display":
        display = make_display()
        display.note(text)
        return display

    return make


def _kept(finished: FinishedRun, isolation: Isolation) -> FinishedRun:
    result = with_isolation(finished.result, isolation)
    if finished.store is None:
        return replace(finished, result=result)
    return keep_again(finished, result, finished.store)


def _with_remark(finished: FinishedRun, remark: str) -> FinishedRun:
    return replace(finished, remarks=(*finished.remarks, remark))


def _names(dropped: Sequence[DroppedNode]) -> str:
    return ", ".join(one.node for one in dropped)
