"""Tables of nccl-tests and files of NCCL Inspector as sides: real ones of public threads, and what is none."""

import json
from pathlib import Path
from typing import Any

import pytest

from raybench.comparison.tools.ended import is_wrong
from raybench.comparison.tools.nccl_tests import is_nccl_tests, nccl_tests_side, version_text
from raybench.errors import UsageError
from raybench.services.comparing.baseline import create_baseline
from raybench.services.comparing.compare import compare_results
from raybench.services.comparing.sides import side_of
from tests.diagnostics.inputs.test_tests_results import DOCUMENT, HALF, ROW

DIAGNOSTICS = Path(__file__).parents[1] / "diagnostics"
THREADS = (DIAGNOSTICS / "threads" / "fifth.txt").read_text(encoding="utf-8").split("\n=== ")
TABLES = {text.split(" | ")[0]: text for text in THREADS if is_nccl_tests(text)}
RCCL = next(text for text in TABLES.values() if "rccl-tests: Version develop" in text)
SPARK = next(text for text in TABLES.values() if "spark-a018" in text)


def test_a_table_of_a_real_program_is_read_with_its_ranks() -> None:
    side = nccl_tests_side("it", RCCL)
    assert side.machine == {"nodes": "1", "ranks": "2", "GPUs": "AMD Instinct MI350X"}
    assert (side.configuration["iters"], side.configuration["warmup iters"]) == ("20", "5")
    values = {(key.benchmark, key.point): figure.value for key, figure in side.figures.items()}
    assert values["all_reduce float sum out of place", "256M"] == pytest.approx(1377.7e-6)
    assert values["all_reduce float sum in place", "1M"] == pytest.approx(76.43e-6)
    assert len(values) == 6


def test_nodes_are_counted_by_the_hosts_of_the_ranks() -> None:
    assert nccl_tests_side("it", SPARK).machine == {"nodes": "2", "ranks": "2", "GPUs": "NVIDIA GB10"}


def test_a_large_message_that_takes_longer_is_found_and_a_small_one_is_open(tmp_path: Path) -> None:
    before, large, small = (tmp_path / name for name in ("before.log", "large.log", "small.log"))
    before.write_text(RCCL, encoding="utf-8")
    large.write_text(RCCL.replace(" 1377.7 ", " 1515.5 "), encoding="utf-8")
    small.write_text(RCCL.replace(" 76.26 ", " 83.89 "), encoding="utf-8")
    assert compare_results([before, before], gate="5%").exit_code == 3  # 1 MiB differs by more from launch to launch
    assert compare_results([before, large], gate="5%").exit_code == 1
    assert {one.difference for one in compare_results([before, small]).figures} == {"no difference", "cannot tell"}


def test_wrong_elements_are_not_compared() -> None:
    wrong = RCCL.replace("365.33      0 ", "365.33     12 ")
    found = [figure.problem for figure in nccl_tests_side("it", wrong).figures.values()]
    assert sorted(found) == ["", "", "", "", "", "wrong data"]


EXCERPT, _, _ = RCCL.partition("# Out of bounds")  # does not show how it ended


@pytest.mark.parametrize(
    ("text", "status", "data"),
    [
        (RCCL, "complete", "pass"),
        (EXCERPT, "unknown", "pass"),
        (RCCL + EXCERPT, "incomplete", "pass"),
        (RCCL.replace("0 OK", "7 FAILED"), "failed", "pass"),
        (RCCL.replace("249.115 ", "249.115 FAILED"), "failed", "pass"),
        (RCCL + "\nn1: Test NCCL failure common.cu:1279 'unhandled system error'\n", "failed", "pass"),
        (RCCL + "\n .. n1 pid 101: Test failure common.cu:100\n", "failed", "pass"),
        (RCCL + "\nn1: the test of failure modes follows\n", "complete", "pass"),
        (RCCL.replace("365.33      0 ", "365.33    nan "), "complete", "fail"),
        (RCCL.replace("365.33      0 ", "365.33    N/A "), "complete", "unknown"),
    ],
)
def test_how_a_program_ended_and_whether_its_data_was_right(text: str, status: str, data: str) -> None:
    assert nccl_tests_side("it", text).outcomes == {"status": status, "data": data}


@pytest.mark.parametrize(
    ("count", "wrong"),
    [("0", False), ("0e+00", False), ("1e-07", False), (0.0, False), ("5", True), ("2e+00", True), (3.0, True)]
    + [(text, True) for text in ("nan", "-nan", "inf", "-inf", "NaN", "-nan(ind)")]
    + [("N/A", None), (None, None), ("", None)],
)
def test_a_count_of_wrong_elements_that_is_no_number_is_wrong_and_none_is_not_known(
    count: float | str | None, wrong: bool | None
) -> None:
    assert is_wrong(count) is wrong


@pytest.mark.parametrize(
    ("changes", "status", "data"),
    [
        ({}, "complete", "pass"),
        ({"out_of_bounds": {"count": 3, "okay": "false"}}, "failed", "pass"),
        ({"average_bus_bandwidth": {"bandwidth": 1.5, "okay": "false"}}, "failed", "pass"),
        ({"errors": ["unhandled system error"]}, "failed", "pass"),
        ({"out_of_bounds": None}, "failed", "pass"),
        ({"out_of_bounds": None, "end_time": ""}, "unknown", "pass"),
        ({"results": [{**ROW, "out_of_place": {**HALF, "nwrong": None}}]}, "complete", "unknown"),
        ({"results": [{**ROW, "out_of_place": {**HALF, "nwrong": "nan"}}]}, "complete", "fail"),
    ],
)
def test_how_a_result_file_says_that_it_ended(tmp_path: Path, changes: Any, status: str, data: str) -> None:
    assert side_of(written_file(tmp_path, "out.json", **changes)).outcomes == {"status": status, "data": data}


@pytest.mark.parametrize(
    ("counts", "status", "calls"),
    [
        ([40, 40, 40, 40], "complete", 40),
        ([40, 40, 40, 0], "incomplete", 40),  # the slow one: how long a call took is not known
        ([40, 40, 40, 20], "incomplete", 20),
        ([40, 40, 40, 39], "complete", 39),  # the job was ended in its last call
        ([1, 1, 1, 0], "incomplete", 1),
        ([6, 6, 6, 6], "complete", 6),
    ],
)
def test_ranks_that_tell_nothing_leave_a_record_of_inspector_incomplete(
    tmp_path: Path, counts: list[int], status: str, calls: int
) -> None:
    for rank, count in enumerate(counts):
        header = {"id": "0x7f", "rank": rank, "n_ranks": 4, "nnodes": 2}
        call = {"coll": "AllReduce", "coll_msg_size_bytes": 67108864}
        lines = [
            json.dumps({"header": header, "coll_perf": {**call, "coll_sn": number, "coll_exec_time_us": 1000 + rank}})
            for number in range(count)
        ]
        (tmp_path / f"{rank}.log").write_text("\n".join(["", *lines, '{"coll_perf": 1}']), encoding="utf-8")
    side = side_of(tmp_path)
    (figure,) = side.figures.values()
    assert (side.outcomes, bool(side.remarks)) == ({"status": status}, status != "complete")
    assert sum(map(len, figure.launches[0])) == calls
    assert list(side.environment) == ["calls of AllReduce, 4 ranks, 64M"]


@pytest.mark.parametrize(
    "text", ["", "size count type", "#  size  count  type  redop\n 8 2 float sum", "time algbw busbw"]
)
def test_what_is_no_table_is_none(text: str) -> None:
    assert not is_nccl_tests(text)


def test_a_time_that_is_none_is_no_figure() -> None:
    odd = RCCL.replace(" 76.26 ", " nan ").replace(" 76.43 ", " -1 ").replace(" 87.02 ", " 1e999 ")
    assert len(nccl_tests_side("it", odd).figures) == 3


def test_calls_of_inspector_take_as_long_as_their_slowest_rank(tmp_path: Path) -> None:
    steady = DIAGNOSTICS / "cases" / "collective-slow" / "steady" / "input.log"
    side = side_of(steady)
    ((key, figure),) = side.figures.items()
    assert (side.kind, key.benchmark, key.point) == ("record of NCCL Inspector", "AllReduce, 4 ranks", "256M")
    whole = steady.read_text(encoding="utf-8").splitlines(keepends=True)
    for number in range(2):  # a file a process, as Inspector writes them
        (tmp_path / f"{number}.log").write_text("".join(whole[number::2]), encoding="utf-8")
    assert side_of(tmp_path).figures == side.figures
    assert figure.value > 0


def test_objects_that_are_cut_or_of_another_form_are_passed_over(tmp_path: Path) -> None:
    good = (DIAGNOSTICS / "cases" / "collective-slow" / "steady" / "input.log").read_text(encoding="utf-8")
    deep = '{"header":' * 5000
    hostile = '{"coll_perf": {"coll": [1]}}\n{"header": {}}\n' + deep + "\n{{{\n" + good[: len(good) // 2]
    path = tmp_path / "cut.log"
    path.write_text(hostile + "\n" + good, encoding="utf-8")
    assert side_of(path).figures == side_of(DIAGNOSTICS / "cases" / "collective-slow" / "steady" / "input.log").figures


BOTH = RCCL + RCCL.replace("all_reduce_perf", "all_gather_perf").replace(" 1377.7 ", " 700.1 ") + RCCL


def test_programs_of_one_log_are_told_apart_and_started_again_are_launches() -> None:
    side = nccl_tests_side("it", BOTH)
    large = {key.benchmark: figure for key, figure in side.figures.items() if key.point == "256M"}
    assert side.machine["ranks"] == "2"
    assert side.environment == {
        "rccl": "2.27.7-develop:29e1567",
        "hip": "7.0.51831-a3e329ad8",
        "rocm": "7.0.1.0-42-9428210",
    }
    assert large["all_gather float sum out of place"].value == pytest.approx(700.1e-6)
    assert len(large["all_reduce float sum out of place"].launches) == 2
    assert len(large["all_gather float sum out of place"].launches) == 1


def test_a_table_with_the_time_of_day_in_two_words_is_read() -> None:
    timed = RCCL.replace("busbw #wrong                 ", "busbw #wrong            timestamp")
    timed = timed.replace(" 25.72      0", " 25.72      0  2026-07-01 10:00:00")
    assert [key.point for key in nccl_tests_side("it", timed).figures] == ["1M", "1M"]


def test_versions_of_a_table_are_its_environment() -> None:
    assert nccl_tests_side("it", SPARK).environment == {"nccl-tests": "2.20.0", "nccl": "2.31.2"}
    assert version_text(2708) == "2.7.8"


ITERATIONS = {"times_us": [30.0, 31.0, 32.0, 31.0, 30.5, 31.5]}


def written_file(folder: Path, name: str, **changes: Any) -> Path:
    """A result file of nccl-tests."""
    path = folder / name
    path.write_text(json.dumps({**DOCUMENT, **changes}), encoding="utf-8")
    return path


def test_the_json_of_the_program_is_read_with_the_times_of_each_iteration(tmp_path: Path) -> None:
    with_times = {**ROW, "out_of_place": HALF, "in_place": HALF, "in_place_per_iter": ITERATIONS}
    wrong = {**ROW, "size": 2097152, "out_of_place": {**HALF, "nwrong": 3.0}, "in_place": None}
    side = side_of(written_file(tmp_path, "out.json", results=[with_times, wrong]))
    figures = {f"{key.benchmark} {key.point}": figure for key, figure in side.figures.items()}
    assert side.machine == {"nodes": "1", "ranks": "1", "GPUs": "NVIDIA H100"}
    assert side.environment == {"nccl": "2.28.7", "NCCL_IB_HCA": "mlx5_0"}  # and nothing of the user's
    assert side.configuration == {"nThread": "1", "nGpus": "1", "minBytes": "8", "maxBytes": "1048576", "step": "2"}
    assert figures["all_reduce float sum in place 1M"].value == pytest.approx(31e-6)
    assert len(figures["all_reduce float sum in place 1M"].block_levels) > 3
    assert figures["all_reduce float sum out of place 1M"].value == pytest.approx(31.2e-6)
    assert figures["all_reduce float sum out of place 2M"].problem == "wrong data"


@pytest.mark.parametrize("end", [120, -2])
def test_a_result_file_that_breaks_off_is_refused(tmp_path: Path, end: int) -> None:
    path = tmp_path / "out.json"
    path.write_text(json.dumps(DOCUMENT)[:end], encoding="utf-8")
    with pytest.raises(UsageError, match="breaks off"):
        side_of(path)


def test_a_folder_of_several_logs_is_compared_by_the_spread_between_them(tmp_path: Path) -> None:
    for side, factor in (("before", 1.0), ("after", 1.1)):
        (tmp_path / side).mkdir()
        for number in range(3):
            slower = RCCL.replace(" 1377.7 ", f" {1377.7 * factor * (1 + number / 300):.1f} ")
            (tmp_path / side / f"{number}.log").write_text(slower, encoding="utf-8")
        (tmp_path / side / "README.txt").write_text("how they were made", encoding="utf-8")
    found = compare_results([tmp_path / "before", tmp_path / "after"], gate="5%")
    (large,) = [one for one in found.figures if one.point == "256M" and "out of" in one.benchmark]
    assert (found.exit_code, large.repeated, large.counts) == (1, "runs", (3, 3))
    kept = create_baseline([tmp_path / "before"])
    assert (kept.kind, len(kept.run_ids)) == ("result of nccl-tests", 3)


FAILED_RANKS = {"status": "failed", "world_size": 2, "errors": {"1": "died"}, "benchmarks": []}
SIGNAL = "mpirun: rank 1 exited on signal 11 (Segmentation fault)\n"


def logs_beside(folder: Path, name: str, text: str | None) -> Path:
    """A folder of three logs of the same, and something else: a file of that text, or a link to nothing."""
    for number in range(3):
        slower = RCCL.replace(" 1377.7 ", f" {1377.7 * (1 + number / 300):.1f} ")
        (folder / f"run{number}.log").write_text(slower, encoding="utf-8")
    (folder / name).parent.mkdir(exist_ok=True)
    if text is None:
        (folder / name).symlink_to("/nonexistent/run3.log")
    else:
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("lost.log", SIGNAL, "exited on signal 11"),
        ("lost.log", "n1: Test NCCL failure common.cu:1279 'unhandled system error'\n", "Test NCCL failure"),
        ("lost.log", "Traceback (most recent call last):\n", "Traceback"),
        ("lost.txt", "srun: error: n1: task 1: Exited with exit code 2\n", "srun: error"),
        ("lost.out", "Killed\n", "Killed"),
        ("lost.out", "ssh: connect to host n2 port 22: Connection refused\n", "Connection refused"),
        ("lost.out", "There are not enough slots available in the system\n", "not enough slots"),
        (
            "lost.out",
            "[rank1]: torch.AcceleratorError: no device\n",
            "AcceleratorError",
        ),
        ("lost.txt", RCCL.partition("#       size")[0], "printed no table"),
        ("lost.log", "", "is empty"),
        ("run3.log", "job 17 is queued\n", "is named as those that have"),
        ("lost.log", None, "link to nothing"),
        ("lost.json", '{"version": ', "breaks off"),
        ("old/lost.log", SIGNAL, "exited on signal 11"),
        ("old/ranks.json", json.dumps({**FAILED_RANKS, "schema": "raybench.standalone/1"}), "has status failed"),
        ("old/run7.log", RCCL.replace("365.33      0 ", "365.33     12 "), "has data fail"),
    ],
)
def test_what_a_failed_run_left_in_a_folder_of_logs_is_open(
    tmp_path: Path, name: str, text: str | None, said: str
) -> None:
    folder = logs_beside(tmp_path, name, text)
    found = compare_results([folder / "run0.log", folder], gate="50%")
    assert (found.exit_code, said in found.verdict_reason) == (3, True), found.verdict_reason
    with pytest.raises(UsageError, match=said):
        create_baseline([folder])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("README.md", "run 3 ended with: Segmentation fault"),
        ("notes.txt", "taken after the reboot"),
        ("times.csv", "size,time\n"),
        ("events.jsonl", '{"a": 1}\n{"a": 2}\n'),
        ("run0.err", ""),  # the error stream of one that ended well
        (".keep", ""),
        ("run0.err", "Connection reset by peer, trying again\n"),
        ("events.log", "killed jobs: 0, connection: up, permission: denied to none\n"),
        ("plugins.log", "NET/Plugin: libnccl-net.so: No such file or directory\n"),
        ("machine.txt", "GPU 0: failure: No, error: 0\n"),
        ("old/run7.log", RCCL),
    ],
)
def test_what_else_is_in_a_folder_of_logs_is_named_and_leaves_nothing_open(
    tmp_path: Path, name: str, text: str
) -> None:
    side = side_of(logs_beside(tmp_path, name, text))
    top = name.partition("/")[0]
    assert (side.gaps, [top in one for one in side.remarks]) == ((), [True])
    assert len(create_baseline([tmp_path]).run_ids) == 3


def test_documents_whose_keys_were_sorted_are_read_as_others(tmp_path: Path) -> None:
    ranks = {"schema": "raybench.standalone/1", **FAILED_RANKS}
    for name, content in (("ranks", ranks), ("tests", DOCUMENT), ("other", {**ranks, "schema": "other/1"})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "it.json").write_text(json.dumps(content, sort_keys=True), encoding="utf-8")
    assert side_of(tmp_path / "ranks").outcomes == {"status": "failed"}
    assert side_of(tmp_path / "tests").kind == "result of nccl-tests"
    with pytest.raises(UsageError, match="has no result"):
        side_of(tmp_path / "other")


def test_what_holds_no_result_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed/a.log").write_text(RCCL, encoding="utf-8")
    (tmp_path / "mixed/b.json").write_text(json.dumps(DOCUMENT)[:90], encoding="utf-8")
    (tmp_path / "empty").write_text("", encoding="utf-8")
    (tmp_path / "text").write_text("a table\n", encoding="utf-8")
    wanted = {"nothing": "has no result", "mixed": "b.json", "empty": "is empty", "text": "not a known result"}
    for name, said in wanted.items():
        with pytest.raises(UsageError, match=said) as refused:
            side_of(tmp_path / name)
        assert "\n" not in str(refused.value)
