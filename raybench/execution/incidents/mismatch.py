"""Which ranks' operations do not fit together, and whose are the odd ones: pure, from what each rank entered last."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from raybench.benchmarks.messages.operations import OPERATIONS, sizes_of
from raybench.benchmarks.rank.progress import NOBODY, POINT_TO_POINT, Operation
from raybench.benchmarks.spec import DTYPE_BYTES, BenchmarkSpec
from raybench.execution.incidents.doing import Made, Seen, current_operation, operation_text, state_of
from raybench.execution.incidents.incident import numbered, order_of

# The others may be given other sizes by each rank.
_EQUAL_COUNTS = ("all_reduce", "broadcast", "reduce", "all_gather_into_tensor", "all_gather_single", "reduce_scatter")
_NO_COLLECTIVES = (*POINT_TO_POINT, "store", "device", "init_process_group", "destroy_process_group", "new_group")
Signature = tuple[str, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """``culprits``: the ranks that differ from the plan or from most others; all, where it cannot be determined."""

    culprits: tuple[int, ...]
    text: str
    is_certain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parting:
    """The first collective of a process group at which ranks differ: each rank's own."""

    by_rank: Mapping[int, Made]

    def parties(self) -> list[list[int]]:
        """The ranks that agree with each other, the smallest party first."""
        parties: dict[Signature, list[int]] = defaultdict(list)
        for rank, made in sorted(self.by_rank.items()):
            parties[_signature(made)].append(rank)
        return sorted(parties.values(), key=len)


def mismatch_of(ranks: Sequence[Seen], plan: Sequence[BenchmarkSpec], *, world_size: int) -> Mismatch | None:
    """The first mismatch: of collectives, else of transfers between two ranks."""
    parting = _parting_of(ranks)
    return _judged(parting, ranks, plan, world_size) if parting is not None else _unmatched_transfer(ranks, plan)


def is_transfer(made: Made) -> bool:
    """Whether an operation is between two ranks."""
    return made.name in POINT_TO_POINT


def _signature(made: Made) -> Signature:
    """What has to be alike in all ranks."""
    return (made.name, made.count, made.dtype) if made.name in _EQUAL_COUNTS else (made.name, 0, "")


def _parting_of(ranks: Sequence[Seen]) -> _Parting | None:
    """From the ranks' own notes, or else from PyTorch's recorder."""
    noted = {one.rank: [made for made in one.activity.operations if made.name not in _NO_COLLECTIVES] for one in ranks}
    return _first_parting(noted) or _first_parting({one.rank: one.activity.recorded or () for one in ranks})


def _first_parting(made: Mapping[int, Sequence[Made]]) -> _Parting | None:
    places: dict[tuple[int, str], dict[int, Made]] = defaultdict(dict)
    for rank, ones in made.items():
        for one in ones:
            places[one.sequence, str(one.group)][rank] = one
    apart = [place for place, by_rank in places.items() if len({_signature(one) for one in by_rank.values()}) > 1]
    return _Parting(by_rank=places[min(apart)]) if apart else None


def _judged(parting: _Parting, ranks: Sequence[Seen], plan: Sequence[BenchmarkSpec], world_size: int) -> Mismatch:
    parties = parting.parties()
    culprits = _odd_ones(parties, parting, ranks, plan, world_size)
    rest = [rank for rank in sorted(parting.by_rank) if rank not in culprits]
    if not rest:
        forms = "; ".join(
            f"{numbered('rank', party)}: {operation_text(parting.by_rank[party[0]])}" for party in parties
        )
        return Mismatch(
            culprits=tuple(culprits), text=f"their operations do not fit together ({forms})", is_certain=True
        )
    own, others = parting.by_rank[culprits[0]], parting.by_rank[rest[0]]
    verb = "is" if len(rest) == 1 else "are"
    text = f"in {operation_text(own)} where {numbered('rank', rest)} {verb} in {operation_text(others)}"
    ahead = _is_ahead(culprits, rest, ranks)
    if own.name != others.name and ahead:
        text += (
            "; already further in the plan with as many operations: one was left out, or "
            f"{numbered('rank', rest)} made one more"
        )
    majority = len(parties[0]) < len(parties[-1])
    return Mismatch(culprits=tuple(culprits), text=text, is_certain=majority or not ahead)


def _odd_ones(
    parties: Sequence[Sequence[int]],
    parting: _Parting,
    ranks: Sequence[Seen],
    plan: Sequence[BenchmarkSpec],
    world_size: int,
) -> list[int]:
    """All but the largest party; where two are equally large, those that do not do what the benchmark is about."""
    if len(parties[-2]) < len(parties[-1]):
        return sorted(rank for party in parties[:-1] for rank in party)
    by_number = {one.rank: one for one in ranks}
    expected = [
        party for party in parties if _is_planned(parting.by_rank[party[0]], by_number[party[0]], plan, world_size)
    ]
    if len(expected) == 1:
        return sorted(rank for party in parties if party is not expected[0] for rank in party)
    first = min(parties, key=lambda party: order_of(by_number[party[0]].position))
    others = [party for party in parties if party is not first]
    if all(_is_ahead(party, first, ranks) for party in others):
        return sorted(rank for party in others for rank in party)
    return sorted(parting.by_rank)


def _is_planned(made: Made, one: Seen, plan: Sequence[BenchmarkSpec], world_size: int) -> bool:
    """Whether an operation is the one that its rank's benchmark measures, with its size and type."""
    if one.position.benchmark >= len(plan):
        return False
    spec = plan[one.position.benchmark]
    if spec.name not in OPERATIONS or not made.name.startswith(spec.name):
        return False
    sizes = sizes_of(spec, world_size)
    elements = sizes[min(one.position.point, len(sizes) - 1)] // DTYPE_BYTES[spec.dtype]
    dtypes = ("", spec.dtype, spec.dtype.removesuffix("32"))  # the recorder says "float" of float32
    whole = spec.name in ("all_reduce", "broadcast", "reduce")
    return made.dtype in dtypes and made.count in ((elements,) if whole else (0, elements, elements // world_size))


def _is_ahead(some: Sequence[int], others: Sequence[int], ranks: Sequence[Seen]) -> bool:
    orders = {one.rank: order_of(one.position) for one in ranks}
    return min(orders[rank] for rank in some) > max(orders[rank] for rank in others)


def _unmatched_transfer(ranks: Sequence[Seen], plan: Sequence[BenchmarkSpec]) -> Mismatch | None:
    """A rank that waits for a transfer with one that waits in something else."""
    by_number = {one.rank: one for one in ranks}
    for one in ranks:
        operation = current_operation(one.activity)
        if operation is None or not is_transfer(operation) or state_of(one) != "waiting":
            continue
        for peer in (operation.peer, operation.source):
            other = by_number.get(peer)
            if peer == NOBODY or other is None or state_of(other) != "waiting":
                continue
            found = current_operation(other.activity)
            if found is not None and not _meets(one.rank, operation, peer, found):
                if not is_transfer(found) and not _has_transfers(one, plan):
                    return _stray(one, operation, found, ranks)
                text = f"in {operation_text(found)} while rank {one.rank} waits for it in {operation_text(operation)}"
                return Mismatch(culprits=(peer,), text=text, is_certain=False)
    return None


def _has_transfers(one: Seen, plan: Sequence[BenchmarkSpec]) -> bool:
    """Whether a rank's benchmark is about transfers between two ranks, so that whoever waits in one may be right."""
    number = one.position.benchmark
    return number >= len(plan) or plan[number].kind not in ("collective", "training")


def _stray(one: Seen, operation: Operation, found: Operation, ranks: Sequence[Seen]) -> Mismatch:
    """A transfer that no benchmark asks for, where its other end is in a collective."""
    inside = {other.rank: current_operation(other.activity) for other in ranks if other is not one}
    rest = sorted(rank for rank, made in inside.items() if made is not None and _signature(made) == _signature(found))
    verb = "is" if len(rest) == 1 else "are"
    text = f"in {operation_text(operation)} where {numbered('rank', rest)} {verb} in {operation_text(found)}"
    return Mismatch(culprits=(one.rank,), text=text, is_certain=False)


def _meets(rank: int, operation: Operation, peer: int, found: Operation) -> bool:
    """Whether the other rank's operation is the other end of a transfer."""
    return is_transfer(found) and (
        (operation.peer == peer and found.source == rank) or (operation.source == peer and found.peer == rank)
    )
