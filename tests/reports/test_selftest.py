"""A selftest as it is shown: a row a check, one for all that was not run, and the next step of a failure."""

import io

from raybench.documents.selftest import SelftestReport
from raybench.reports.html import render_html
from raybench.reports.terminal.report import print_document
from tests.documents.test_selftest import check, report

MADE: SelftestReport = report(
    [
        check("collectives", "passed", figures={"wrong_elements": 0}),
        check("torch-cuda", "failed", "nvidia", next_step="unset CUDA_VISIBLE_DEVICES"),
        *(check(name, "not-run", "gpu") for name in ("cudnn", "nccl-library")),
    ]
)


def printed(*, full: bool = False) -> str:
    stream = io.StringIO()
    print_document(MADE, stream, width=120, full=full)
    return stream.getvalue()


def test_a_failure_stands_out_with_what_to_do() -> None:
    lines = printed().splitlines()
    assert lines[0] == lines[-1]
    assert lines[0].startswith("# VERDICT: CRITICAL: 1 of 4 checks failed: torch-cuda; NO GPU PROVED, 2 checks not run")
    assert "  torch-cuda    FAILED   torch-cuda seen" in lines
    assert "# torch-cuda: unset CUDA_VISIBLE_DEVICES" in lines


def test_checks_that_were_not_run_have_a_row_each_reason_and_in_full_each_check() -> None:
    same = report([check("a", "passed"), *(check(name, "not-run", "gpu") for name in ("b", "c"))])
    stream = io.StringIO()
    print_document(SelftestReport.of_json(_with_reason(same, "no GPU"), "it"), stream, width=120)
    assert "  2 checks  not run  no GPU: b, c" in stream.getvalue()
    assert "nccl-library  not run" in printed(full=True)


def test_the_page_has_every_figure() -> None:
    page = render_html(MADE)
    assert all(word in page for word in ("wrong_elements", "FAILED", "unset CUDA_VISIBLE_DEVICES", "not run"))


def _with_reason(made: SelftestReport, reason: str) -> object:
    content = made.to_json()
    return content | {"checks": [one | {"seen": reason} for one in content["checks"]]}
