"""What each collective sends and must receive, against a reference in plain Python that knows nothing of segments."""

from collections.abc import Callable, Iterable
from importlib import import_module
from itertools import chain, pairwise
from math import prod
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import torch.distributed as dist

from raybench.benchmarks.base import Buffers, Collective, CollectiveArguments
from raybench.benchmarks.messages.operations import OPERATIONS
from raybench.benchmarks.messages.pattern import PERIOD, Segment
from raybench.benchmarks.rank.progress import OPERATIONS as PROGRESS_OPERATIONS
from raybench.benchmarks.rank.progress import ProgressSlot
from raybench.benchmarks.rank.recording import recording
from raybench.benchmarks.registry import SUITES

Messages = list[list[float]]
NAMES = [name for name in SUITES["collectives"] if name != "p2p_matrix"]
REDUCE: dict[str, Callable[[Iterable[float]], float]] = {
    "sum": sum, "prod": prod, "min": min, "max": max, "avg": lambda values: sum(given := list(values)) / len(given)
}  # fmt: skip


def collective(name: str) -> Collective:
    found: Collective = import_module(OPERATIONS[name].module).COLLECTIVE
    return found


def spread(segments: Iterable[Segment], length: int) -> list[float | None]:
    """A buffer as its segments describe it, element by element; None where they say nothing."""
    buffer: list[float | None] = [None] * length
    for segment in segments:
        for index in range(segment.count):
            assert buffer[segment.offset + index] is None, "two segments overlap"
            buffer[segment.offset + index] = segment.table[(segment.phase + index) % PERIOD]
    return buffer


def reference(name: str, sent: Messages, root: int, op: str) -> list[list[float] | None]:
    """What every rank holds afterwards, by the MPI standard's words; None where it says undefined or nothing."""
    ranks = range(len(sent))

    def reduced() -> list[float]:
        return [REDUCE[op](column) for column in zip(*sent, strict=True)]

    def part(message: list[float], index: int) -> list[float]:
        size = len(message) // len(sent)
        return message[index * size : (index + 1) * size]

    meanings: dict[str, Callable[[int], list[float] | None]] = {
        "all_reduce": lambda _: reduced(),
        "reduce": lambda rank: reduced() if rank == root else None,
        "broadcast": lambda _: sent[root],
        "all_gather": lambda _: list(chain(*sent)),
        "gather": lambda rank: list(chain(*sent)) if rank == root else None,
        "reduce_scatter": lambda rank: part(reduced(), rank),
        "scatter": lambda rank: part(sent[root], rank),
        "all_to_all": lambda rank: list(chain(*(part(sent[source], rank) for source in ranks))),
        "send_recv": lambda rank: sent[rank - 1],
    }
    assert name in meanings, f"add what {name} means to reference() in tests/benchmarks/messages/test_semantics.py"
    return [meanings[name](rank) for rank in ranks]


@pytest.mark.parametrize("parts", [1, 3, 97, 600])
@pytest.mark.parametrize("world_size", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("name", NAMES)
def test_expected_is_what_the_operation_means(name: str, world_size: int, parts: int) -> None:
    facts, entry = collective(name), OPERATIONS[name]
    elements = parts * (world_size if entry.partitioned else 1)
    for op in REDUCE if entry.reduces else ["sum"]:
        for root in {0, world_size - 1} if entry.rooted else {0}:
            calls = [
                CollectiveArguments(
                    rank=rank,
                    world_size=world_size,
                    elements=elements,
                    dtype="float32",
                    reduce_op=op if entry.reduces else None,
                    root=root if entry.rooted else None,
                )
                for rank in range(world_size)
            ]
            lengths = [facts.lengths(args) for args in calls]
            sent = [spread(facts.sent(args), length) for args, (length, _) in zip(calls, lengths, strict=True)]
            assert not any(value is None for message in sent for value in message), "a send buffer has a hole"
            meant = reference(name, [[value or 0.0 for value in message] for message in sent], root, op)
            for args, (_, length), wanted in zip(calls, lengths, meant, strict=True):
                found = spread(facts.expected(args), length)
                if wanted is None:
                    assert set(found) <= {None}
                else:
                    assert found == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("world_size", [2, 3, 8])
@pytest.mark.parametrize("name", [name for name in NAMES if len(OPERATIONS[name].placements) == 2])
def test_in_place_parts_are_the_ranks_own(name: str, world_size: int) -> None:
    """In place, the smaller buffer is this rank's part of the larger one, as NCCL's manual has it."""
    for rank in range(world_size):
        args = CollectiveArguments(
            rank=rank, world_size=world_size, elements=world_size * 7, dtype="float32", reduce_op=None, root=None
        )
        assert collective(name).in_place_offset(args) == rank * 7


def published(name: str, n: int) -> float:
    """nccl-tests, doc/PERFORMANCE.md and the ``getBw`` functions of src/*.cu (gather, scatter, sendrecv)."""
    factors = {
        "all_reduce": 2 * (n - 1) / n,
        "all_gather": (n - 1) / n,
        "reduce_scatter": (n - 1) / n,
        "broadcast": 1.0,
        "reduce": 1.0,
        "gather": (n - 1) / n,
        "scatter": (n - 1) / n,
        "all_to_all": (n - 1) / n,
        "send_recv": 1.0,
    }
    assert name in factors, f"add the factor of {name} to published() in tests/benchmarks/messages/test_semantics.py"
    return factors[name]


@pytest.mark.parametrize("name", NAMES)
def test_bus_factors_are_those_of_nccl_tests(name: str) -> None:
    for world_size in (1, 2, 3, 8, 1024):
        assert collective(name).bus_factor(world_size) == pytest.approx(published(name, world_size))


def test_every_bus_factor_is_derived_in_the_methods() -> None:
    """docs/methods.md has a row with the least time and the factor of each operation."""
    text = (Path(__file__).parents[3] / "docs/methods.md").read_text()
    table = text.partition("| operation | least time | f |")[2].partition("\n\n")[0]
    rows = {name.strip() for line in table.splitlines()[2:] for name in line.split("|")[1].split(",")}
    assert set(OPERATIONS) - rows == set(), "add its row to the table of docs/methods.md, Bandwidth"
    assert rows - set(OPERATIONS) == set(), "docs/methods.md, Bandwidth, has a row of no operation"


class Transfer(NamedTuple):
    """A dist.P2POp without a process group."""

    op: object
    tensor: torch.Tensor
    peer: int


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_every_operation_is_noted_while_it_waits(name: str, rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not noted would hang without a name: point-to-point calls go through ``exchange``."""
    for module in (dist, dist.distributed_c10d):
        for function in (*PROGRESS_OPERATIONS, "batch_isend_irecv", "isend", "irecv"):
            if hasattr(module, function):
                monkeypatch.setattr(module, function, lambda *_, **__: [])
        monkeypatch.setattr(module, "P2POp", Transfer)
    entry, facts, progress = OPERATIONS[name], collective(name), ProgressSlot()
    args = CollectiveArguments(
        rank=rank, world_size=2, elements=8, dtype="float32",
        reduce_op="sum" if entry.reduces else None, root=0 if entry.rooted else None,
    )  # fmt: skip
    send, receive = (torch.zeros(length) for length in facts.lengths(args))
    with recording(progress):
        facts.prepare(args, Buffers(send=send, receive=receive))()
    assert progress.operations(), f"{name} entered no recorded operation: see raybench/benchmarks/rank/recording.py"


@pytest.mark.parametrize("name", NAMES)
def test_an_operation_that_cuts_its_message_says_so(name: str) -> None:
    """Its parts are segments of their own; where the message is no multiple of the ranks, elements would be lost."""
    calls = [
        CollectiveArguments(rank=rank, world_size=3, elements=12, dtype="float32", reduce_op=None, root=0)
        for rank in range(3)
    ]
    facts = collective(name)
    counts = {segment.count for args in calls for segment in chain(facts.sent(args), facts.expected(args))}
    assert OPERATIONS[name].partitioned == (counts != {12}), f"partitioned of {name} in COLLECTIVES"


@pytest.mark.parametrize("name", NAMES)
def test_an_operation_of_both_placements_says_where_its_part_lies(name: str) -> None:
    given = collective(name).in_place_offset is not Collective.__dataclass_fields__["in_place_offset"].default
    cut = len(OPERATIONS[name].placements) == 2
    assert given == cut, f"{name}: in_place_offset is for an operation of BOTH placements, and each of them has it"


def test_sent_data_differs_between_ranks() -> None:
    """Else a rank that received its neighbour's part would pass."""
    for name in ("all_gather", "all_to_all", "send_recv", "broadcast", "gather"):
        calls = [
            CollectiveArguments(rank=rank, world_size=4, elements=400, dtype="int8", reduce_op=None, root=0)
            for rank in range(4)
        ]
        messages = [spread(collective(name).sent(args), collective(name).lengths(args)[0]) for args in calls]
        assert all(one != other for one, other in pairwise(messages))
