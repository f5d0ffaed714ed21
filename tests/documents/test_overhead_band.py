"""The word for an overhead is the same in a run, in a study's tables and in its causes, at the limits too."""

from types import SimpleNamespace
from typing import Any

import pytest

from raybench.documents.run.communication import Communication
from raybench.reports.study.cells import overhead
from raybench.studies.scaling_causes import likely_causes
from tests.reports.test_summary import trained


@pytest.mark.parametrize(
    ("share", "band"),
    [(0.0, "low"), (0.1999, "low"), (0.2, "moderate"), (0.3, "moderate"), (0.4, "moderate"), (0.4001, "high")],
)
def test_a_share_has_one_word_everywhere(share: float, band: str) -> None:
    point = trained("ddp", 1.0, launches=((1.0,) * 50,), communication=Communication(exposed={"profiler": share}))
    row: Any = SimpleNamespace(overhead=share, batch_size_per_rank=None, data_share=None, step_seconds=None)
    causes = " ".join(likely_causes(row, row, emulated=False))
    assert point.overhead_band == band
    assert overhead(share).text.endswith(f" {band}")
    assert ("(moderate)" in causes, "(high above" in causes) == (band == "moderate", band == "high")
