"""The word for an overhead is the same in a run, in a study's tables and in its causes, at the limits too."""

from types import SimpleNamespace
from typing import Any

import pytest

from diagnostics.rules import rule_named
from diagnostics.rules.collectives.sync_overhead import LIMIT_PERCENT
from raybench.documents.run.communication import BANDS_IN_WORDS, HIGH_OVERHEAD, Communication
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


def test_one_limit_judges_a_log_and_a_training() -> None:
    """What the pages and notes of both say is that limit, too."""
    page = rule_named("sync-overhead").page
    assert LIMIT_PERCENT == 100 * HIGH_OVERHEAD
    assert f"above {LIMIT_PERCENT:g} %" in page
    assert f"moderate to {HIGH_OVERHEAD:.0%}, high above" in BANDS_IN_WORDS
