"""Tables on a terminal: their columns, their width, and that hostile text stays text."""

import io
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from raybench.documents.run.benchmark import BenchmarkResult
from raybench.documents.run.cluster import DroppedNode
from raybench.documents.run.point import Point
from raybench.documents.run.result import RunResult
from raybench.peers.findings import with_peers
from raybench.reports.html import render_html
from raybench.reports.markdown import render_markdown
from raybench.reports.terminal.comment import cut
from raybench.reports.terminal.report import print_document, run_files
from tests.found import found

from .sample import cluster, launches, pairs, point, run_result, sweep

HOSTILE = "[red]x[/red] \x1b[31m\x9b2J\r\nroot\u202e"


def printed(result: RunResult, width: int | None = None, files: Sequence[tuple[str, Path]] = ()) -> str:
    stream = io.StringIO()
    print_document(result, stream, files=files, full=True, width=width)
    return stream.getvalue()


@pytest.mark.parametrize("width", [1, 2, 3, 19])
def test_a_terminal_of_hardly_any_width_is_no_error(width: int) -> None:
    assert "VERDICT" in printed(with_peers(run_result(sweep(), pairs(4))), width=width)


def data_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_pipe_has_all_columns_of_nccl_tests() -> None:
    text = printed(run_result(sweep(), sweep(in_place=True)))
    headings = next(line for line in text.splitlines() if line.startswith("#") and "algbw" in line).split()
    place = ["time", "algbw", "busbw", "#wrong", "p99", "+-CI"]
    assert headings == ["#", "size", "count", "type", "redop", "root", *place, *place]
    assert re.search(r"-+ out-of-place -+ +-+ in-place -+", text)
    rows = data_lines(text)
    assert len(rows) == 25
    assert rows[0].split()[:5] == ["8", "2", "float32", "sum", "-1"]
    assert rows[-1].split()[0] == str(2**27)


@pytest.mark.parametrize("width", [80, 100, 120, 160])
def test_tables_fit_the_terminal(width: int) -> None:
    result = run_result(
        sweep(shape=(3, 5, 20)), sweep(in_place=True), pairs(16, per_node=8), cluster=cluster(8, 8, emulated=True)
    )
    text = printed(result, width)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    assert "in-place" in text
    assert "busbw" in text


def test_eighty_columns_keep_time_bandwidth_and_wrong_of_both_places() -> None:
    text = printed(run_result(sweep(), sweep(in_place=True)), 80)
    headings = next(line for line in text.splitlines() if "busbw" in line).split()
    assert headings == ["#", "size", *["time", "algbw", "busbw", "#wrong", "+-CI"] * 2]


def test_emulated_is_said_at_the_top_on_each_table_and_at_the_end() -> None:
    text = printed(run_result(sweep(), pairs(), cluster=cluster(emulated=True)), 80)
    assert text.count("!! EMULATED") == 2
    assert "float32 sum  emulated" in text
    assert "row sends to column  emulated" in text
    assert "emulated" not in printed(run_result()).lower()


def test_wrong_elements_are_counted_and_fail_the_run() -> None:
    wrong = point(1024, wrong_elements=17, verified=False)
    text = printed(run_result(sweep(points=(wrong,))))
    assert data_lines(text)[0].split()[8] == "17"
    assert "Out of bounds values : FAILED: 17 wrong elements" in text


def test_unchecked_results_are_not_called_right() -> None:
    text = printed(run_result(sweep(points=(point(1024, verified=None),))))
    assert "N/A" in data_lines(text)[0]
    assert "Out of bounds values : not checked" in text


def test_unstable_rows_are_marked_and_explained() -> None:
    shaky = point(1024, samples=launches(1e-3, noise=0.6))
    text = printed(run_result(sweep(points=(point(512), shaky))))
    first, second = data_lines(text)
    assert "~" not in first
    assert second.rstrip().endswith("~")
    assert "# ~ unsteady at 1K" in text
    assert "numbers in the report" in text
    assert "1 of 2 points unstable" in text


def test_skipped_partial_and_dropped_say_why() -> None:
    skipped = sweep("gather", status="skipped", points=(), reason="gloo has no gather of int8")
    partial = sweep("reduce", status="partial", reason="rank 3 on node-1 died at 4M")
    absent = DroppedNode(node="node-7", reason="no answer within 30 s")
    lost = cluster(dropped=(absent, DroppedNode(node="node-1", reason="silent for 10 s")))
    text = printed(run_result(skipped, partial, cluster=lost, status="partial"))
    assert "skipped: gather: gloo has no gather of int8" in text
    assert "stopped: rank 3 on node-1 died at 4M" in text
    assert "node-7 took no part: no answer within 30 s" in text
    assert "node-1 was lost: silent for 10 s" in text
    assert "\n# partial: 1 benchmark, 1 skipped" in text


def test_matrix_names_the_slow_pair() -> None:
    text = printed(with_peers(run_result(pairs(8, slow=[(0, 3)]), cluster=cluster(4, 2))), 80)
    assert "slow pair: rank 0 (node-0) -> rank 3 (node-1)" in text
    assert "slowest pair" not in text
    assert "VERDICT: CRITICAL: the path from rank 0 (node-0) to rank 3 (node-1)" in text
    assert len(data_lines(text)) == 8


def test_a_pair_that_no_finding_names_is_called_slow_nowhere() -> None:
    """Of two ranks nothing can be determined: what stands beside "OK" may not be red."""
    result = with_peers(run_result(pairs(2, per_node=1, slow=[(0, 1)]), cluster=cluster(2, 1)))
    assert result.conclusion.verdict == "ok"
    terminal, page, markdown = printed(result, 80), render_html(result), render_markdown(result)
    assert "slowest pair: rank 0 (node-0) -> rank 1 (node-1)" in terminal
    assert not re.search(r"slow (pair|node|rank):", terminal + page + markdown)
    assert "0 of them slow" in page


def test_a_matrix_without_a_slow_pair_shows_only_its_slowest() -> None:
    text = printed(run_result(pairs(4)), 80)
    assert text.count("slowest pair: ") == 1
    assert "slow pair" not in text


def test_matrix_names_the_slow_rank_instead_of_its_pairs() -> None:
    slow = [(3, other) for other in range(2, 8)] + [(other, 3) for other in range(8)]
    text = printed(with_peers(run_result(pairs(8, slow=slow), cluster=cluster(4, 2))), 80)
    assert "slow rank: rank 3 (node-1) reaches 0.30 of its peers' bandwidth between nodes" in text
    assert "slow pair" not in text


def test_matrix_names_the_slow_node() -> None:
    slow = [(rank, other) for rank in range(8) for other in range(8) if 1 in (rank // 2, other // 2)]
    text = printed(with_peers(run_result(pairs(8, slow=slow), cluster=cluster(4, 2))), 80)
    assert "slow node: node node-1 reaches 0.30 of its peers' bandwidth between nodes" in text


def test_wide_matrix_is_shown_by_node() -> None:
    text = printed(run_result(pairs(32, per_node=8), cluster=cluster(4, 8)), 80)
    assert "by node" in text
    assert len(data_lines(text)) == 4


def test_paths_are_printed_whole() -> None:
    path = Path("/a/" + "long/" * 40 + "report.html")
    assert str(path) in printed(run_result(), 80, run_files(path.parent, path, full=True))


def test_hostile_text_is_escaped() -> None:
    advice = {"action": HOSTILE, "text": HOSTILE}
    finding = found(rule=HOSTILE, summary=HOSTILE, hosts=[HOSTILE], recommendations=[advice])
    hostile = sweep(HOSTILE, parameters={"dtype": HOSTILE}, warnings=(HOSTILE,), reason=HOSTILE)
    skipped = BenchmarkResult(name=HOSTILE, kind="p2p", parameters={}, status="skipped", reason=HOSTILE)
    result = run_result(
        hostile,
        skipped,
        run_id=HOSTILE,
        versions={HOSTILE: HOSTILE},
        findings=(finding,),
        cluster=cluster(backend=HOSTILE, dropped=(DroppedNode(node=HOSTILE, reason=HOSTILE),)),
    )
    text = printed(result)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    assert "[red]x[/red]" in text


def test_ascii_stream_is_no_obstacle() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print_document(run_result(sweep("réduire")), stream, full=True)
    stream.seek(0)
    assert "r\\xe9duire" in stream.read()


def test_a_run_without_results_prints() -> None:
    text = printed(run_result(sweep(points=(), status="failed", reason="no rank answered"), status="failed"))
    assert "failed: all_reduce: no rank answered" in text
    assert "not checked" in text


def test_repeats_give_mean_and_spread() -> None:
    repeated = Point(
        message_bytes=1024,
        element_count=256,
        bus_factor=1.0,
        launches=(((1e-3,) * 4,) * 5, ((3e-3,) * 4,) * 5),
        rank_seconds=(1e-3, 1e-3),
        verified=True,
        wrong_elements=0,
    )
    text = printed(run_result(sweep(points=(repeated,))))
    assert "1K: 2 launches, mean 2000.00 us, stddev 1414.21 us (71%), 1000.00 to 3000.00 us" in text
    assert "launches, mean" not in printed(run_result(sweep(points=(point(1024),))))


@pytest.mark.parametrize(
    ("length", "shown"),
    [
        (44, "takes 22,898,726 to 46,050,333 USD, to train"),
        (43, "takes 22,898,726 to 46,050,333 USD, to t..."),  # of a word some letters do
        (34, "takes 22,898,726 to 46,050,333 ..."),
        (33, "takes 22,898,726 to 46,050,333..."),
        (32, "takes 22,898,726 to..."),  # not 46,050,33...
        (20, "takes 22,898,726 ..."),
        (18, "takes..."),  # not 22,898,72...
    ],
)
def test_a_text_that_is_cut_has_no_part_of_a_figure(length: int, shown: str) -> None:
    assert cut("takes 22,898,726 to 46,050,333 USD, to train", length) == shown
