"""The diagnosis of logs as a call: what it proves, what it is worth, and whose names are in it."""

from pathlib import Path

import pytest

import raybench
from diagnostics.findings import Diagnosis
from raybench.errors import UsageError
from raybench.services.diagnose import diagnose, follow, rule_page

CASES = Path(__file__).parents[1] / "diagnostics" / "cases"
BAD = CASES / "duplicate-gpu" / "classic" / "input.log"
WARNING = CASES / "gdr-missing" / "ib_without_gdr" / "input.log"


def test_a_log_is_worth_what_its_findings_are() -> None:
    finished = diagnose([WARNING])
    assert (finished.exit_code, finished.refusal) == (1, "")
    assert "gdr-missing" in {finding.rule for finding in finished.diagnosis.findings}
    assert diagnose([WARNING], fail_on="critical").exit_code == 0
    assert raybench.diagnose(WARNING) == finished.diagnosis


def test_what_holds_nothing_of_nccl_is_refused_with_its_diagnosis(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("epoch 1 loss 0.3\n")
    finished = diagnose([tmp_path / "a.log"], fail_on="never")
    assert (finished.exit_code, finished.diagnosis.verdict) == (2, "unknown")
    assert finished.refusal.startswith("nothing to judge: ")
    for call in (lambda: diagnose([tmp_path / "none"]), lambda: raybench.diagnose(tmp_path / "none")):
        with pytest.raises(UsageError, match="none"):
            call()


def test_a_log_that_grows_tells_its_news_once_and_under_the_same_stand_ins(tmp_path: Path) -> None:
    """Ctrl-C comes while news are told."""
    log, news_of = tmp_path / "a.log", list[tuple[Diagnosis, Diagnosis]]()
    log.write_text(BAD.read_text())

    def news(new: Diagnosis, whole: Diagnosis) -> None:
        news_of.append((new, whole))
        raise KeyboardInterrupt

    finished = follow([log], news, waiting=lambda: None, redact=True)
    assert finished.exit_code == 1
    ((new, whole),) = news_of
    assert new.findings[0].rule == "duplicate-gpu"
    assert new.findings == whole.findings == finished.diagnosis.findings
    assert diagnose([log]).diagnosis.findings != whole.findings


def test_the_page_of_a_rule_and_the_list_of_all() -> None:
    assert "tcp-fallback" in rule_page(None)
    assert "GPU and NIC are too far apart" in rule_page("gdr-distance")
    with pytest.raises(UsageError, match="gdr-distance"):
        rule_page("gdr-distanse")
