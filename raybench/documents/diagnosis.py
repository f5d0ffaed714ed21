"""The diagnosis of NCCL's logs: ``diagnosis.json``, and ``raybench diagnose --format json``.

Schema ``raybench.diagnosis/1``: keys are added, never renamed or removed. What a log cannot tell is None. The class is
that of ``diagnostics``, which makes it with the standard library alone and shares the base of all documents.
"""

from diagnostics.findings import CannotTell, Diagnosis, LineCounts, RankRow

__all__ = ["CannotTell", "Diagnosis", "LineCounts", "RankRow"]
