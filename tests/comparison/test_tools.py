"""Tables of nccl-tests and files of NCCL Inspector as sides: real ones of public threads, and what is none."""

from pathlib import Path

import pytest

from raybench.comparison.nccl_tests import is_nccl_tests, nccl_tests_side
from raybench.services.comparing.compare import compare_results
from raybench.services.comparing.sides import side_of

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
    assert (side.kind, key.benchmark, key.point) == ("files of NCCL Inspector", "AllReduce, 4 ranks", "256M")
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
