"""What ranks measured under torchrun, without Ray: ``python -m raybench.benchmarks.standalone --output FILE``.

Schema ``raybench.standalone/1``: keys are added, never renamed or removed.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import field

from raybench.documents.part import FieldwiseDocument
from raybench.documents.quantity import Count
from raybench.documents.run.benchmark import BenchmarkResult


class StandaloneResult(FieldwiseDocument, frozen=True, kw_only=True):
    """Benchmarks as in a run's result. ``errors`` and ``ranks``: what each rank said, by its number."""

    status: str
    benchmarks: tuple[BenchmarkResult, ...]
    world_size: Count | None = None
    backend: str | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    ranks: Mapping[str, Any] = field(default_factory=dict)
    SCHEMA: ClassVar[str] = "raybench.standalone/1"
