"""What the trainings of one run say of each other: strategies whose losses are apart. Pure."""

from collections.abc import Iterator, Sequence

from diagnostics.findings import Finding
from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.same_loss import run_agreements
from raybench.finding_rules.workloads import LOSSES_DIFFER


def loss_findings(benchmarks: Sequence[BenchmarkResult]) -> Iterator[Finding]:
    """Strategies whose losses are apart from the first steps on."""
    for one in run_agreements(benchmarks):
        if one.verdict == "different":
            yield LOSSES_DIFFER.finding(
                confidence="certain",
                summary=one.text,
                explanation=", ".join(f"{name} ends at {loss:.4f}" for name, loss in one.last_losses.items()),
                recommendations=LOSSES_DIFFER.advise(),
            )
