"""The log of one large job for the benchmark: 512 ranks on 64 machines, which build communicators one after another.

Each line has the form of ``mlperf41-clemson-6x8-h100-ib-gdr.log`` in the corpus. The world's communicator comes first,
then groups of the eight ranks of a machine and of the 64 ranks with the same device, in turn, until the log is as large
as asked for. Training prints a table between them. Nothing in it is wrong.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

NODES = 64
LOCAL_RANKS = 8
CHANNELS = 16


def write_one_job(target: Path, total_bytes: int) -> None:
    """Write the log."""
    written = number = 0
    with target.open("wb") as stream:
        written += stream.write(_text(_start()))
        while written < total_bytes:
            for ranks in _communicators(number):
                written += stream.write(_text(_communicator(ranks, number)))
                number += 1
            written += stream.write(_text(_training(number)))


def _text(lines: Iterator[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def _head(rank: int) -> str:
    pid = 20_000 + rank
    return f"{rank:3}: node{rank // LOCAL_RANKS:03}:{pid}:{pid + 1200} [{rank % LOCAL_RANKS}] NCCL INFO"


def _start() -> Iterator[str]:
    for rank in range(NODES * LOCAL_RANKS):
        head = _head(rank)
        yield f"{head} Bootstrap : Using ens1f0:10.0.{rank // LOCAL_RANKS}.1<0>"
        yield f"{head} NCCL_IB_HCA set by environment to mlx5"
        nics = " ".join(f"[{number}]mlx5_{number}:1/IB/SHARP" for number in range(LOCAL_RANKS))
        yield f"{head} NET/IB : Using {nics} [RO]; OOB ens1f0:10.0.{rank // LOCAL_RANKS}.1<0>"
        yield f"{head} Using network IBext"
    yield "  0: NCCL version 2.21.5+cuda12.4"


def _communicators(number: int) -> list[list[int]]:
    world = list(range(NODES * LOCAL_RANKS))
    if number == 0:
        return [world]
    machines = [world[start : start + LOCAL_RANKS] for start in world[::LOCAL_RANKS]]
    return machines + [world[device::LOCAL_RANKS] for device in range(LOCAL_RANKS)]


def _communicator(ranks: Sequence[int], number: int) -> Iterator[str]:
    size = len(ranks)
    for what in ("Init START", None, "Init COMPLETE"):
        for place, rank in enumerate(ranks):
            device = rank % LOCAL_RANKS
            if what is None:
                yield from _connections(ranks, place)
                continue
            gpu = f"cudaDev {device} nvmlDev {device} busId {0x19 + 0x10 * device:x}000 commId 0x9bfb{number:012x}"
            comm = f"comm 0x{0x557E471F6240 + (rank << 16) + (number << 6):x} rank {place} nranks {size}"
            yield f"{_head(rank)} {comm} {gpu} - {what}"


def _connections(ranks: Sequence[int], place: int) -> Iterator[str]:
    rank, size = ranks[place], len(ranks)
    before, behind = ranks[place - 1], ranks[(place + 1) % size]
    head, ring = _head(rank), [(place - 1) % size, place, (place + 1) % size]
    yield f"{head} Setting affinity for GPU {rank % LOCAL_RANKS} to ff,ffffffff"
    yield f"{head} Trees " + " ".join(f"[{number}] {ring[2]}/-1/-1->{place}->{ring[0]}" for number in range(CHANNELS))
    yield f"{head} P2P Chunksize set to 131072"
    for channel in range(CHANNELS):
        if place == 0:
            yield f"{head} Channel {channel:02}/{CHANNELS} : " + " ".join(map(str, range(size)))
        for peer, other, direction in ((before, ring[0], "receive"), (behind, ring[2], "send")):
            pair = (other, peer, place, rank) if direction == "receive" else (place, rank, other, peer)
            ends = f"{pair[0]}[{pair[1] % LOCAL_RANKS}] -> {pair[2]}[{pair[3] % LOCAL_RANKS}]"
            if peer // LOCAL_RANKS != rank // LOCAL_RANKS:
                nic = rank % LOCAL_RANKS if direction == "receive" else f"{rank % LOCAL_RANKS}({place})"
                yield f"{head} Channel {channel:02}/0 : {ends} [{direction}] via NET/IBext/{nic}/GDRDMA"
            elif direction == "send":
                yield f"{head} Channel {channel:02}/0 : {ends} via P2P/CUMEM"
    yield f"{head} Connected all rings"
    yield f"{head} Connected all trees"
    yield f"{head} 16 coll channels, 0 collnet channels, 0 nvls channels, 32 p2p channels, 2 p2p channels per peer"


def _training(number: int) -> Iterator[str]:
    for step in range(2000):
        loss = 11 / (1 + step + number)
        yield f"  0: iteration {2000 * number + step:8}/ 500000 | loss {loss:.6E} | lr 1.0E-04 | 412.3 ms"
