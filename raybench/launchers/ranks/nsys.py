"""Command lines that run ranks below Nsight Systems, ready to paste: one for each launcher. Pure.

``nsys profile`` sees the children of what it starts: it stands before torchrun, once a node, and before each rank of
srun and mpirun. Ranks below Ray are children of Ray's own processes, which were started without it; so no line has
Ray. ``--trace-fork-before-exec``: a rank's loader workers are forked. In a name, ``%h`` is the host and ``%q{NAME}`` a
variable (Nsight Systems User Guide, CLI Profile Command Switch Options).
"""

import shlex
from collections.abc import Iterator, Sequence

from raybench.launchers.ranks.words import RanksRequest, mpirun_words, rank_words, torchrun_words

_NSYS = ("nsys", "profile", "--trace=cuda,nvtx,osrt", "--sample=none", "--cpuctxsw=none")
OPEN_ADDRESS = "$MASTER_ADDR"  # where the user has to say which node is rank 0's


def nsys_lines(request: RanksRequest, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Launcher and line, for a command of raybench in ``words``."""
    yield "torchrun", _line([*_profiled("raybench-%h"), *torchrun_words(request, words)])
    count = (f"--nodes={request.node_count}", f"--ntasks-per-node={request.ranks_per_node}")
    each = [*_profiled("raybench-rank-%q{SLURM_PROCID}"), request.python, "-P", "-m", "raybench", *rank_words(words)]
    yield "srun", _line(["srun", *count, *each])
    whole = mpirun_words(request, words)
    at = whole.index(request.python)
    yield "mpirun", _line([*whole[:at], *_profiled("raybench-rank-%q{OMPI_COMM_WORLD_RANK}"), *whole[at:]])


def _profiled(name: str) -> list[str]:
    return [*_NSYS, "--trace-fork-before-exec=true", "--force-overwrite=true", f"--output={name}"]


def _line(words: Sequence[str]) -> str:
    """As a shell takes it; of the variable the shell has the value."""
    return " ".join(f'"{word}"' if OPEN_ADDRESS in word else shlex.quote(word) for word in words)
