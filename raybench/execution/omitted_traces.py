"""What a run leaves on its nodes and does not bring home, as findings. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence

from diagnostics.findings import Finding
from raybench.finding_rules.nodes import LOGS_LOST, TRACE_LEFT_OUT

_MIB = 2**20


def trace_findings(node: str, omitted: Mapping[str, tuple[int, int]]) -> Iterator[Finding]:
    """One for each trace of a node that is too long: ``omitted[file name]`` are its bytes and the most allowed."""
    for name, (size, most) in sorted(omitted.items()):
        rank = re.match(r"trace-rank-([0-9]+)-", name)
        sizes = f"it has {size / _MIB:.1f} MiB, and at most {most / _MIB:.1f} are kept"
        yield TRACE_LEFT_OUT.finding(
            confidence="certain",
            summary=f"{name} of {node} is not in logs/: {sizes}",
            explanation="It went with the run's other files on the node. The figures made from it are kept.",
            ranks=(int(rank[1]),) if rank else (),
            hosts=(node,),
            recommendations=TRACE_LEFT_OUT.advise(mebibytes=-(-size // _MIB)),
        )


def lost_logs_finding(node: str, ranks: Sequence[int], why: str) -> Finding:
    """The logs of a node could not be fetched: what NCCL said there is in no diagnosis."""
    return LOGS_LOST.finding(
        confidence="certain",
        summary=f"the logs of {node} could not be fetched: {why}",
        explanation="All was measured, but what NCCL said on that node is not in the diagnosis.",
        ranks=tuple(ranks),
        hosts=(node,),
        recommendations=LOGS_LOST.advise(),
    )
