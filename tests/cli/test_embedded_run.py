"""One embedded run end to end, as a user sees it: files, screen, exit status, and nothing left."""

import csv
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command import Command, started
from tests.result_contract import Result, read_result
from tests.trackers.test_event_file import contents

pytestmark = pytest.mark.cluster
OTHERS_COMPUTE = "cpu-contention"  # true beside other work that its agent sees; in CI it sees what is the worker's own
SUITE = "all_reduce,all_gather,reduce,scatter,p2p_matrix"
RUN = ["run", "--address", "local", "--nodes", "2", "--gpus-per-node", "2", "--suite", SUITE, "--sizes", "1K:64K:8"]


@pytest.fixture(scope="module")
def run() -> Iterator[Command]:
    """Finished; its folder is still there."""
    with started(*RUN, "--p2p-size", "16K", "--iters", "4", "--op", "sum,max", "--env", "NCCL_ALGO=Ring") as command:
        assert command.finish(120) == 0, command.errors
        yield command


@pytest.fixture(scope="module")
def result(run: Command) -> Result:
    return read_result((run.run_folders[0] / "result.json").read_bytes())


def test_the_result_is_the_contracts_and_consistent(result: Result) -> None:
    assert (result.status, [one for one in result.findings if one["rule"] != OTHERS_COMPUTE]) == ("complete", [])
    cluster = result.cluster
    assert (cluster.world_size, cluster.backend, cluster.emulated, cluster.dropped) == (4, "gloo", True, [])
    assert [(node.name, node.ranks) for node in cluster.nodes] == [("node-1", [0, 1]), ("node-2", [2, 3])]
    assert {"raybench", "python", "ray", "torch", "kernel"} <= set(result.environment.versions)
    assert result.environment.variables["NCCL_ALGO"] == "Ring"
    assert result.config["nodes"] == 2


def test_each_benchmark_is_there_with_each_size(result: Result) -> None:
    names = [(one.name, one.parameters["reduce_op"], one.parameters["in_place"]) for one in result.benchmarks]
    assert names == [
        ("all_reduce", "sum", True),
        ("all_reduce", "max", True),
        ("all_gather", None, False),
        ("all_gather", None, True),
        ("reduce", "sum", True),
        ("reduce", "max", True),
        ("scatter", None, False),
        ("p2p_matrix", None, False),
    ]
    for benchmark in result.benchmarks[:-1]:
        assert [point.message_bytes for point in benchmark.points] == [1024, 8192, 65536]
        assert benchmark.status == "complete"
        assert all(point.block_iterations == [[4] * 5] for point in benchmark.points)
        assert all((point.verified, point.wrong_elements) == (True, 0) for point in benchmark.points)
    pairs = {(point.source_rank, point.destination_rank) for point in result.benchmarks[-1].points}
    assert pairs == {(source, to) for source in range(4) for to in range(4) if source != to}
    assert {point.message_bytes for point in result.benchmarks[-1].points} == {16384}


def test_ranks_say_how_the_system_treats_them(result: Result) -> None:
    for node in result.cluster.nodes:
        assert set(node.facts["ranks"]) == {str(rank) for rank in node.ranks}
        for facts in node.facts["ranks"].values():
            assert (facts["niceness"], facts["omp_threads"]) == (str(os.nice(0)), "1")
            assert facts["tcp_congestion_control"] != "unknown"


def test_raw_samples_are_complete_and_those_of_the_result(run: Command, result: Result) -> None:
    lines = run.samples()
    assert len(lines) == sum(len(benchmark.points) for benchmark in result.benchmarks)
    for line in lines:
        stamps = line["rank_completion_seconds"]
        blocks = [max(stamps[rank][block][-1] for rank in stamps) for block in range(5)]
        (point,) = [
            point
            for benchmark in result.benchmarks
            if (benchmark.name, benchmark.parameters) == (line["benchmark"], line["parameters"])
            for point in benchmark.points
            if (point.message_bytes, point.source_rank, point.destination_rank)
            == (line["message_bytes"], line["source_rank"], line["destination_rank"])
        ]
        assert sum(point.samples_seconds) == pytest.approx(sum(blocks))


def test_the_folder_holds_what_is_promised_and_nothing_hidden(run: Command, result: Result) -> None:
    (folder,) = run.run_folders
    assert folder.name == result.run_id
    names = {path.name for path in folder.iterdir()}
    assert {"result.json", "result.csv", "report.html", "samples.jsonl", "logs"} <= names
    assert not [name for name in names if name.startswith(".")]
    logs = {path.name for path in (folder / "logs").iterdir()}
    assert {f"output-rank-{rank}.log" for rank in range(4)} <= logs
    rows = list(csv.reader((folder / "result.csv").read_text().splitlines()))
    assert len(rows) == 1 + sum(len(benchmark.points) for benchmark in result.benchmarks)
    page = (folder / "report.html").read_text()
    assert result.run_id in page
    assert "emulated" in page.lower()


def test_the_screen_says_emulated_shows_a_table_and_names_the_report(run: Command, result: Result) -> None:
    assert "EMULATED" in run.out
    assert "all_reduce" in run.out
    assert str(run.run_folders[0] / "report.html") in run.out
    others = [one["summary"] for one in result.findings if one["rule"] == OTHERS_COMPUTE]
    verdict = f"VERDICT: WARNING: {others[0]}" if others else "VERDICT: OK: data verified"
    assert " ".join(verdict.split())[:60] in " ".join(run.out.split())
    assert "Traceback" not in run.errors


def test_progress_goes_to_standard_error_and_counts_to_the_end(run: Command) -> None:
    steps = [tuple(map(int, match)) for match in re.findall(r"\[ *(\d+)/(\d+)\]", run.errors)]
    assert steps
    assert {total for _, total in steps} == {7 * 3 + 12}
    assert [step for step, _ in steps] == sorted({step for step, _ in steps})
    assert "[" not in "".join(line[:1] for line in run.out.splitlines())


def test_without_a_terminal_there_are_no_control_characters(run: Command) -> None:
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", run.out + run.errors)


def test_nothing_is_left_running_or_lying_about(run: Command) -> None:
    assert run.left_over() == {}
    assert run.left_files() == []


@pytest.fixture(scope="module")
def again(run: Command) -> Iterator[Command]:
    """Compared with the first one, of two launches and two types, of one of which gloo cannot take the mean."""
    options = ["--sizes", "8K:512K:8", "--iters", "4", "--placement", "in", "--no-verify", "--dtype", "int8,float32"]
    beside = ["--baseline", str(run.run_folders[0]), "--track", "tensorboard"]
    words = [*RUN[:7], "--suite", "all_reduce", *options, "--op", "sum,avg", "--repeats", "2", *beside]
    with started(*words, drawn=False) as command:
        assert command.finish(90) == 3, command.errors  # emulated nodes are shown beside it, and not judged by it
        yield command


def benchmark_of(command: Command, dtype: str, operation: str) -> dict[str, Any]:
    wanted = (dtype, operation)
    benchmarks: list[dict[str, Any]] = command.result()["benchmarks"]
    (found,) = [one for one in benchmarks if (one["parameters"]["dtype"], one["parameters"]["reduce_op"]) == wanted]
    return found


def test_a_baseline_stands_beside_every_point_that_both_runs_have(again: Command, result: Result) -> None:
    before = {point.message_bytes: point.busbw_gb_per_s for point in result.benchmarks[0].points}
    shown = {point["message_bytes"]: point["expected"] for point in benchmark_of(again, "float32", "sum")["points"]}
    assert list(shown) == [8192, 65536, 524288]
    for size in (8192, 65536):
        assert shown[size]["busbw_gb_per_s"] == pytest.approx(before[size])
        assert result.run_id in shown[size]["basis"]
    assert "emulated nodes" in shown[524288]["unknown"]


def test_repeats_are_launches_of_their_own_with_their_spread(again: Command) -> None:
    for point in benchmark_of(again, "float32", "avg")["points"]:
        assert point["block_iterations"] == [[4] * 5] * 2
        assert len(point["repeats"]["medians_seconds"]) == 2
        assert point["verified"] is None
    assert [line["launch"] for line in again.samples()] == [launch for launch in range(2) for _ in range(9)]


def test_a_backend_that_lacks_an_operation_skips_it_and_the_run_is_complete(again: Command) -> None:
    skipped = benchmark_of(again, "int8", "avg")
    assert (skipped["status"], skipped["points"]) == ("skipped", [])
    assert "gloo does not offer all_reduce of int8 with avg" in skipped["reason"]
    assert benchmark_of(again, "float32", "avg")["status"] == again.result()["status"] == "complete"
    assert skipped["reason"] in " ".join(again.out.replace("#", " ").split())


def test_a_tracker_has_the_points_of_every_launch_the_verdict_and_its_place_in_the_result(again: Command) -> None:
    (told,) = again.result()["trackers"]
    assert told["status"] == "logged", told
    (file,) = Path(told["where"]).iterdir()
    events = contents(file)
    for launch in ("", ".launch-2"):
        name = f"all_reduce.float32-avg-in-place{launch}/busbw_gb_per_s".encode()
        logged = [one for one in events if name in one and b"summary/" not in one]
        steps = [varint(one[10:]) for one in logged if one[9:10] == b"\x10"]
        assert steps == [8192, 65536, 524288], "the step is the message size"
    (verdict,) = (one for one in events if b"verdict" in one)
    assert f"**{again.result()['verdict']}**".encode() in verdict
    assert f"tracked by tensorboard: {told['where']}" in again.errors


def varint(data: bytes) -> int:
    """A number of a protocol buffer: seven bits a byte, the last byte below 128."""
    length = next(place for place, byte in enumerate(data, 1) if byte < 128)
    return sum((byte & 127) << (7 * place) for place, byte in enumerate(data[:length]))


@pytest.fixture(scope="module")
def alone() -> Iterator[Command]:
    """One rank, whose result is on standard output."""
    options = ("--suite", "collectives", "--sizes", "1K", "--iters", "2", "--json", "--quiet")
    with started("run", "--address", "local", *options, drawn=False) as command:
        assert command.finish(60) == 0, command.errors
        yield command


@pytest.mark.long  # every day one node under torchrun (test_launched_runs.py)
def test_one_node_is_a_run_too(alone: Command) -> None:
    result = read_result((alone.run_folders[0] / "result.json").read_bytes())
    assert result.cluster.world_size == 1
    assert {one.name for one in result.benchmarks if one.status == "skipped"} == {"p2p_matrix"}
