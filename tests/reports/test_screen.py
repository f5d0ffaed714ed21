"""A run on one screen: 80 columns, 24 lines, the verdict first and last, one row a benchmark."""

import io
from pathlib import Path

import pytest
from msgspec.structs import replace

from raybench.documents.run.checkpoint import CheckpointPoint
from raybench.documents.run.memory import MemoryPoint
from raybench.documents.run.result import RunResult
from raybench.documents.run.verdict import Check
from raybench.documents.study.result import StudyResult
from raybench.reports.builders.asked import Asked
from raybench.reports.findings import gravest_first
from raybench.reports.model import Cell, Grid, Report, Table, notes_of
from raybench.reports.terminal.report import print_document, run_files
from raybench.reports.terminal.screen import screen_lines
from raybench.studies.result import result_of
from tests.found import found
from tests.reports.sample import cluster, pairs, run_result, sweep
from tests.reports.test_summary import trained
from tests.studies.sample import outcomes_of
from tests.studies.test_scaling import noisy_repeats, simulated, study

PLACE = Path("/runs/20261121-014334-a1b2/report.html")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "all_to_all")
UNKNOWN = "bandwidth not judged (emulated nodes on one machine: these figures say nothing about a network)"


def shown(result: RunResult, width: int = 80) -> list[str]:
    stream = io.StringIO()
    notes = Asked(notes=("NCCL logs: ok, network ib",))
    print_document(result, stream, files=[("report", PLACE)], asked=notes, width=width)
    return stream.getvalue().splitlines()


def everything(**changes: object) -> RunResult:
    """Eight collectives in two places, a matrix, and every kind of remark."""
    steps = [{"action": "look", "text": "look at this rank's GPU and NIC " + "y" * 200}]
    slow = [
        found(
            rule="slow-rank",
            severity="critical",
            summary=f"rank {rank} is slow {'x' * 90}",
            recommendations=steps,
        )
        for rank in range(5)
    ]
    benchmarks = [sweep(name, in_place=place, noise=0.5) for name in COLLECTIVES for place in (False, True)]
    check = Check(name="bandwidth", outcome="not judged", text=UNKNOWN)
    values = {"findings": tuple(slow), "checks": (check,), "cluster": cluster(emulated=True)} | changes
    return run_result(*benchmarks, pairs(), sweep("send_recv"), sweep("scan"), **values)


@pytest.mark.parametrize("findings", [(), None])
def test_whatever_a_run_has_to_say_fits_one_screen(findings: object) -> None:
    lines = shown(everything() if findings is None else everything(findings=()))
    assert len(lines) <= 23  # and the prompt
    assert max(map(len, lines[:-1])) <= 80 or "report:" in max(lines, key=len)
    assert lines[0].startswith("# VERDICT: ")
    assert any(line.startswith("# VERDICT: ") for line in lines[-3:])


def test_a_run_that_its_user_stopped_fails_nothing() -> None:
    """One line for all that was not begun, and nothing of the end of the ranks that the logs then show."""
    why = "stopped by you during all_reduce float32 64K"
    never = [sweep(name, points=(), status="failed", reason=why) for name in COLLECTIVES[1:]]
    finding = found(rule="interrupted", severity="info", summary=why, victims=[])
    read = {"action": "read", "text": "Read"}
    end = found(rule="peer-died", severity="critical", summary="a peer died", recommendations=[read])
    cut = sweep(status="partial", reason=why)
    stopped = run_result(cut, *never, status="partial", findings=(finding,), log_findings=(end,))
    lines = shown(stopped, 200)
    assert not [line for line in lines if "failed" in line or "critical" in line or "next:" in line]
    assert [
        line for line in lines if "7 benchmarks  " in line and "not measured" in line and f"{why}: all_gather," in line
    ]


def test_of_a_run_that_something_broke_the_screen_has_the_cause_and_not_what_follows_from_it() -> None:
    """Once a rank sleeps for ever, raybench ends the others, and their logs tell of a peer that went away."""
    why = "rank 1 on node-2: asleep in nap (train.py line 12) during all_reduce float32 64K"
    cause = found(rule="rank-behind", severity="critical", summary=why, victims=[])
    of_the_end = found(rule="peer-died", severity="critical", summary="A rank's process went away")
    of_its_own = found(rule="ib-port-down", severity="critical", summary="the port of node-1 is down")
    cut = sweep(status="partial", reason=why)
    broken = run_result(cut, status="partial", findings=(cause,), log_findings=(of_the_end, of_its_own))
    lines = shown(broken, 200)
    assert not [line for line in lines if "went away" in line]
    assert [line for line in lines if "the port of node-1 is down" in line]  # of which the end is no reason
    first, second, last = gravest_first(broken, broken.log_findings)
    assert (first.rule, second.rule, last.rule, last.severity) == ("rank-behind", "ib-port-down", "peer-died", "info")
    assert last.explanation.startswith("A part of the end that rank-behind made of the run.")


def test_the_verdict_is_first_and_last_and_says_the_same() -> None:
    lines = shown(run_result())
    assert lines[0] == lines[-1] == "# VERDICT: OK: data verified, no finding"


def test_a_row_a_benchmark_with_its_figure() -> None:
    lines = shown(run_result(sweep(), sweep(in_place=True), pairs()))
    (row,) = [line for line in lines if "all_reduce" in line]
    assert "all_reduce float32 sum, 8-128M" in row
    assert "GB/s busbw at 128M" in row
    (matrix,) = [line for line in lines if "p2p, 12 pairs of 64M" in line]
    assert "GB/s median" in matrix


def test_instability_is_said_once() -> None:
    lines = shown(everything(findings=()))
    assert sum("More --iters" in line for line in lines) == 1


def test_wrong_data_and_what_was_skipped_have_a_row() -> None:
    wrong = sweep()
    wrong = replace(wrong, status="failed", points=(replace(wrong.points[-1], wrong_elements=7, verified=False),))
    skipped = replace(sweep("reduce", points=()), status="skipped", reason="gloo has no avg")
    lines = shown(run_result(wrong, skipped))
    assert any("WRONG" in line for line in lines[1:])
    assert any("WRONG: 7 elements" in line for line in shown(run_result(wrong, skipped), 120))
    assert any(line.split() == ["reduce", "skipped", "gloo", "has", "no", "avg"] for line in lines)


def test_workloads_have_their_headline() -> None:
    memory = MemoryPoint(
        label="memory small", uses=(), largest_batch=4, reached_most=False, limit_bytes=2**29, emulated=True
    )
    saved = CheckpointPoint(
        label="sharded, sync", durable_seconds=(1.0,) * 3, blocked_seconds=(0.5,), tensor_bytes=10**9
    )
    workloads = [
        replace(sweep("memory", points=()), kind="memory", workload=(memory,)),
        replace(sweep("checkpoint", points=()), kind="checkpoint", workload=(saved,)),
        replace(sweep("ddp", points=()), kind="training", workload=(trained("ddp", 0.1),)),
    ]
    text = "\n".join(shown(run_result(*workloads)))
    assert "largest batch 4" in text
    assert "save 1.00 GB/s, load -" in text
    assert "a step" in text
    assert "samples/s" in text


def test_a_path_is_not_wrapped() -> None:
    assert f"report: {PLACE}" in " ".join(shown(run_result(), width=30))


def test_of_thirty_benchmarks_as_many_as_fit_are_shown_and_the_rest_counted() -> None:
    lines = shown(run_result(*(sweep(f"all_reduce_{number}", sizes=(8, 1024)) for number in range(30))))
    rows = [line for line in lines if line.startswith("  all_reduce_")]
    assert len(lines) <= 23
    assert f"# and {30 - len(rows)} more rows: --full, or the report" in lines


def study_lines(content: StudyResult) -> list[str]:
    stream = io.StringIO()
    print_document(content, stream, files=run_files(Path("/studies/one"), None, full=False), width=80)
    return stream.getvalue().splitlines()


def test_a_study_on_one_screen() -> None:
    plan = study(1, 2, 4)
    lines = study_lines(result_of("s", plan, outcomes_of(plan, simulated(plan))))
    assert lines[0].startswith("# VERDICT: OK: strong scaling: use 2 nodes")
    assert lines[0] in lines[-2:]
    assert any("strong, 4 nodes" in line and "2.02x, 50" in line and "% efficient" in line for line in lines)
    assert (len(lines) <= 23, max(map(len, lines)) <= 80) == (True, True)


def test_a_stopped_study_says_so_and_counts_what_it_has() -> None:
    plan = study(1, 2)
    some = outcomes_of(plan, lambda trial: simulated(plan)(trial) if trial.number < 4 else None)
    made = result_of("s", plan, some, stopped=True)
    assert (made.conclusion.verdict, made.exit_code) == ("incomplete", 3)
    lines = study_lines(made)
    assert lines[0].startswith("# VERDICT: INCOMPLETE: stopped by you; 4 of 10 trials complete, their results")
    assert not [line for line in lines if "was not begun" in line or "failed" in line]


def test_a_study_whose_intervals_decide_nothing_is_no_clean_answer() -> None:
    plan = study(1, 2)
    made = result_of("s", plan, noisy_repeats(plan))
    assert (made.conclusion.verdict, made.exit_code) == ("warning", 0)


def test_one_size_is_no_range_and_of_one_point_the_plural_is_kept() -> None:
    whole = sweep(noise=0.5)
    lines = shown(run_result(replace(whole, points=whole.points[-1:])))
    (row,) = [line for line in lines if "all_reduce" in line]
    assert "all_reduce float32 sum, 128M " in row
    assert any("of 1 points unstable" in line for line in lines)


def test_the_job_of_a_scheduler_is_on_the_first_screen_and_in_the_report() -> None:
    from raybench.documents.run.scheduler import SchedulerJob
    from raybench.reports.builders.run.report import run_report

    job = SchedulerJob(name="slurm", job_id="1417", node_list="gpu-[01-04]", partition="h200")
    result = run_result(sweep("all_reduce"), scheduler=job)
    assert any("Slurm job 1417 (h200)" in line for line in shown(result, width=200))
    for brief in (False, True):
        assert "Slurm job 1417 (h200)" in run_report(result, Asked(brief=brief)).lead
    assert not any(" job " in line for line in shown(run_result(sweep("all_reduce"))))
    pods = SchedulerJob(name="kubernetes", job_id="raybench-3f9a21")
    assert pods.in_brief == "Kubernetes job raybench-3f9a21"


@pytest.mark.parametrize(("before", "last"), [(14, "# two lines: "), (15, "# one line")])
def test_a_text_that_is_cut_between_its_lines_ends_in_dots(before: int, last: str) -> None:
    """A price stood as "override with", whose second line had no room."""
    rows = tuple((Cell(text=f"{row}"),) for row in range(9))
    texts = [*(f"{number}." for number in range(before)), "one line", f"two lines: {'word ' * 20}"]
    blocks = (Table(grid=Grid(headings=("row",), rows=rows), text_columns=1), *notes_of(texts))
    report = Report(name="a report", title="", verdict="ok", reason="", lead="", when="", blocks=blocks)
    told = ["".join(text for text, _ in line) for line in screen_lines(report, 80, [])]
    assert len(told) == 23
    assert told[-2].startswith(last)
    assert told[-2].endswith("...") is last.startswith("# two")
    assert max(map(len, told)) <= 80
