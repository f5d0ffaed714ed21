"""What a run leaves on its nodes and does not bring home, as findings. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_MIB = 2**20


def trace_findings(node: str, left_out: Mapping[str, tuple[int, int]]) -> Iterator[dict[str, Any]]:
    """One for each trace of a node that is too long: ``left_out[file name]`` are its bytes and the most allowed."""
    for name, (size, most) in sorted(left_out.items()):
        rank = re.match(r"trace-rank-([0-9]+)-", name)
        sizes = f"it has {size / _MIB:.1f} MiB, and at most {most / _MIB:.1f} are kept"
        yield {
            "rule": "trace-left-out",
            "severity": "warning",
            "confidence": "certain",
            "summary": f"{name} of {node} is not in logs/: {sizes}",
            "explanation": "It went with the run's other files on the node. The figures made from it are kept.",
            "ranks": [int(rank[1])] if rank else [],
            "hosts": [node],
            "evidence": [],
            "recommendations": [
                {
                    "action": "raise-log-limit",
                    "text": "Raise --log-limit above its size, profile a smaller model, or lower "
                    "--gradient-accumulation-steps.",
                    "commands": [f"raybench train --profile --log-limit {-(-size // _MIB)}M"],
                    "link": None,
                }
            ],
        }


def lost_logs_finding(node: str, ranks: Sequence[int], why: str) -> dict[str, Any]:
    """The logs of a node could not be fetched: what NCCL said there is in no diagnosis."""
    return {
        "rule": "logs-lost",
        "severity": "warning",
        "confidence": "certain",
        "summary": f"the logs of {node} could not be fetched: {why}",
        "explanation": "All was measured, but what NCCL said on that node is not in the diagnosis.",
        "ranks": list(ranks),
        "hosts": [node],
        "evidence": [],
        "recommendations": [
            {
                "action": "look-at-node",
                "text": "See whether Ray still runs there.",
                "commands": ["ray status"],
                "link": None,
            }
        ],
    }
