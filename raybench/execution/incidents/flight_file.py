"""PyTorch's flight record and NCCL's RAS report of ranks that hang, as files that ``raybench diagnose`` reads too."""

from collections.abc import Sequence

import msgspec

from raybench.benchmarks.rank.recorded import Recorded
from raybench.execution.incidents.doing import Seen
from raybench.execution.log_files import FLIGHT_RECORD

RAS_REPORT = "ncclras.txt"


def flight_records(ranks: Sequence[Seen], backend: str) -> dict[str, bytes]:
    """One file a rank that told its record; none without NCCL, of whose logs they are a part."""
    if backend != "nccl":  # gpu: nccl-hang
        return {}
    return {f"{FLIGHT_RECORD}{one.rank}.json": record_json(one) for one in ranks if one.activity.recorded}


def ras_files(ranks: Sequence[Seen]) -> dict[str, bytes]:
    """What NCCL's RAS service said of the job, as ``ncclras`` prints it: the longest answer of all nodes."""
    answers = [one.activity.nccl_ras for one in ranks if one.activity.nccl_ras]
    return {RAS_REPORT: max(answers, key=len).encode()} if answers else {}


def record_json(one: Seen) -> bytes:
    """A rank's record in the fields of PyTorch's own dump."""
    entries = [_entry(made) for made in one.activity.recorded or ()]
    return msgspec.json.encode({"version": "2.0", "rank": one.rank, "entries": entries})


def _entry(made: Recorded) -> dict[str, object]:
    return {
        "process_group": [made.group, ""],
        "collective_seq_id": made.sequence,
        "profiling_name": f"nccl:{made.name}",
        "input_sizes": [[made.count]],
        "input_dtypes": [made.dtype],
        "state": "completed" if made.over else "scheduled",
    }
