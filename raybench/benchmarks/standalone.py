"""The same plan under torchrun, without Ray: the other side of the parity benchmark, and a way to run where Ray is not.

``torchrun --nproc-per-node 2 -m raybench.benchmarks.standalone --suite all_reduce --sizes 16M --output points.json``

torchrun's own store carries two things only: the port on which the ranks meet in a store of their own, as under Ray,
and at the end what every rank measured.
"""

import argparse
import os
import socket
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from raybench.benchmarks.events import (
    BenchmarkFinished,
    Event,
    PointMeasured,
    RankFailed,
    RankReady,
    WorkloadMeasured,
    decode,
    encode,
)
from raybench.benchmarks.machine_use import machine_use
from raybench.benchmarks.messages.combine import point_of
from raybench.benchmarks.rank.assignment import RankAssignment
from raybench.benchmarks.rank.progress import ProgressSlot
from raybench.benchmarks.registry import parameters_of, records_of, specs_of, workload_of
from raybench.benchmarks.spec import BenchmarkSpec, RankSamples
from raybench.benchmarks.workload import RankRecord, Request
from raybench.documents.run.benchmark import BenchmarkResult, BenchmarkStatus
from raybench.documents.run.machine_use import MachineUse
from raybench.errors import UsageError
from raybench.sizes import parse_sizes
from raybench.whole_file import write_whole

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

SCHEMA = "raybench.standalone/1"
_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_LISTEN_QUEUE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """This rank's place, as torchrun's variables give it."""

    rank: int
    local_rank: int
    world_size: int
    ranks_on_machine: int
    master_address: str

    @classmethod
    def from_environment(cls) -> "Place":
        """Raises UsageError outside torchrun."""
        missing = [name for name in _VARIABLES if name not in os.environ]
        if missing:
            raise UsageError(
                f"{', '.join(missing)} not set: start this with torchrun, such as "
                "'torchrun --nproc-per-node 2 -m raybench.benchmarks.standalone --output points.json'"
            )
        return cls(
            rank=int(os.environ["RANK"]),
            local_rank=int(os.environ["LOCAL_RANK"]),
            world_size=int(os.environ["WORLD_SIZE"]),
            ranks_on_machine=int(os.environ["LOCAL_WORLD_SIZE"]),
            master_address=os.environ["MASTER_ADDR"],
        )


def plan_from(options: argparse.Namespace) -> tuple[BenchmarkSpec, ...]:
    """The benchmarks asked for, made as for ``raybench run``."""
    template = BenchmarkSpec(
        name="",
        kind="collective",
        sizes=parse_sizes(options.sizes),
        warmup=options.warmup,
        iterations=options.iters,
        blocks=options.blocks,
        verify=not options.no_verify,
    )
    request = Request(
        template=template,
        placement=options.placement,
        reduce_ops=tuple(options.op.split(",")),
        dtypes=tuple(options.dtype.split(",")),
        options={},
    )
    return specs_of(options.suite, request)


def run(place: Place, plan: Sequence[BenchmarkSpec], *, backend: str, timeout_seconds: float) -> dict[str, Any] | None:
    """Run the plan as this rank. Returns the result in rank 0, None elsewhere; every rank must call it."""
    from torch._C._distributed_c10d import PrefixStore  # seconds, which invalid usage does not wait for
    from torch.distributed.rendezvous import rendezvous

    from raybench.benchmarks.rank.run import run_rank

    timeout = timedelta(seconds=timeout_seconds)
    found, _, _ = next(rendezvous("env://", place.rank, place.world_size, timeout=timeout))
    store = PrefixStore("raybench", found)
    listener = _listen() if place.rank == 0 else None
    if listener is not None:
        store.set("port", str(listener.getsockname()[1]))
    assignment = RankAssignment(
        rank=place.rank,
        local_rank=place.local_rank,
        world_size=place.world_size,
        ranks_on_machine=place.ranks_on_machine,
        ranks_on_node=place.ranks_on_machine,
        backend=backend,
        master_address=place.master_address,
        master_port=int(store.get("port")),
        timeout_seconds=timeout_seconds,
        device_index=place.local_rank if backend == "nccl" else None,  # gpu: torchrun-nccl
        listen_fd=None if listener is None else listener.detach(),
    )
    events: list[Event] = []
    run_rank(assignment, plan, events.append, ProgressSlot())
    store.set(f"events/{place.rank}", msgspec.json.encode([encode(event) for event in events]).decode())
    if place.rank != 0:
        store.get("collected")  # torchrun ends the others when one ends badly
        return None
    result = result_of([event for rank in range(place.world_size) for event in _events_of(store, rank, plan)], plan)
    store.set("collected", "")
    return {"world_size": place.world_size, "backend": backend} | result


def _listen() -> socket.socket:
    dual = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual else socket.AF_INET
    return socket.create_server(("", 0), family=family, backlog=_LISTEN_QUEUE, dualstack_ipv6=dual)


def _events_of(store: "Store", rank: int, plan: Sequence[BenchmarkSpec]) -> list[Event]:
    encoded = msgspec.json.decode(store.get(f"events/{rank}"), type=list[bytes])
    return [decode(data, plan) for data in encoded]


def result_of(events: Sequence[Event], plan: Sequence[BenchmarkSpec]) -> dict[str, Any]:
    """The events of all ranks as plain values: a result for each benchmark, facts and errors by rank."""
    errors = {event.rank: event.error for event in events if isinstance(event, RankFailed)}
    benchmarks = [_result(index, spec, events) for index, spec in enumerate(plan)]
    return {
        "schema": SCHEMA,
        "status": "failed" if any(one.status == "failed" for one in benchmarks) else "complete",
        "errors": {str(rank): error for rank, error in sorted(errors.items())},
        "ranks": {str(event.rank): event.facts for event in events if isinstance(event, RankReady)},
        "benchmarks": [
            result.to_json() | {"launches": [point.launches for point in result.points]} for result in benchmarks
        ],
    }


def _result(index: int, spec: BenchmarkSpec, events: Sequence[Event]) -> BenchmarkResult:
    ends = [event for event in events if isinstance(event, BenchmarkFinished) and event.benchmark == index]
    skipped = next((event.skipped for event in ends if event.skipped is not None), None)
    if workload_of(spec.kind).records is not None:
        return _workload(spec, ends, skipped, [one for one in events if isinstance(one, WorkloadMeasured)], index)
    measured = (event for event in events if isinstance(event, PointMeasured) and event.benchmark == index)
    points = tuple(point_of([launch]) for launch in _complete(measured))
    status: BenchmarkStatus = "skipped" if skipped else "complete" if ends and points else "failed"
    if any(point.wrong_elements for point in points):
        status = "failed"
    return BenchmarkResult(
        name=spec.name,
        kind=spec.kind,
        parameters=parameters_of(spec),
        status=status,
        points=points,
        reason=skipped,
        machine_use=_machine_use(ends),
    )


def _machine_use(ends: Sequence[BenchmarkFinished]) -> tuple[MachineUse, ...]:
    return tuple(machine_use(0, end.rank, end.machine) for end in ends if end.machine is not None)


def _workload(
    spec: BenchmarkSpec,
    ends: Sequence[BenchmarkFinished],
    skipped: str | None,
    events: Sequence[WorkloadMeasured],
    index: int,
) -> BenchmarkResult:
    by_label: dict[str, dict[int, RankRecord]] = {}
    for event in events:
        if event.benchmark == index and not event.record.interim:
            by_label.setdefault(event.record.label, {})[event.rank] = event.record
    whole = [ranks for ranks in by_label.values() if len(ranks) == len(ends)]
    points = tuple(records_of(spec.kind).point([ranks], spec, len(ranks), None) for ranks in whole)
    good = bool(points) and not any(point.failed or point.wrong for point in points)
    return BenchmarkResult(
        name=spec.name,
        kind=spec.kind,
        parameters=parameters_of(spec),
        status="skipped" if skipped else "complete" if good else "failed",
        reason=skipped,
        workload=points,
        machine_use=_machine_use(ends),
    )


def _complete(measured: Iterable[PointMeasured]) -> list[dict[int, RankSamples]]:
    points: dict[tuple[int, int | None, int | None], dict[int, RankSamples]] = {}
    for event in measured:
        samples = event.samples
        key = samples.message_bytes, samples.source_rank, samples.destination_rank
        points.setdefault(key, {})[event.rank] = samples
    return [ranks for ranks in points.values() if len(ranks) == next(iter(ranks.values())).contributors]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="torchrun -m raybench.benchmarks.standalone", description="Run a plan of raybench under torchrun."
    )
    parser.add_argument("--suite", default="all_reduce", help="benchmarks or suites, as for 'raybench run'")
    parser.add_argument("--sizes", default="1K:16M:4")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--op", default="sum")
    parser.add_argument("--placement", default="both", choices=("in", "out", "both"))
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--iters", type=int, default=None)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--no-verify", action="store_true")
    parser.add_argument("--backend", default="gloo", choices=("gloo", "nccl"))
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds that one operation may take")
    parser.add_argument("--output", type=Path, required=True, help="JSON file that rank 0 writes")
    return parser


def main() -> int:
    """Entry point of every rank. Returns 0; 1 when a benchmark failed; 2 for invalid usage."""
    options = _parser().parse_args()
    try:
        place, plan = Place.from_environment(), plan_from(options)
    except UsageError as error:
        sys.stderr.write(f"standalone: {error}\n")
        return 2
    result = run(place, plan, backend=options.backend, timeout_seconds=options.timeout)
    if result is None:
        return 0
    write_whole(options.output, msgspec.json.encode(result))
    return int(result["status"] != "complete")


if __name__ == "__main__":
    sys.exit(main())
