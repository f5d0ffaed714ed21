"""``raybench estimate`` and the links between GPUs: given, measured, or of such nodes."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from raybench.cli.estimate import command
from raybench.cli.planning.plan import command as plan_command
from tests.cli.planning.answered import answer, refusal
from tests.reports.sample import cluster, run_result, sweep


@pytest.mark.parametrize(
    ("gpu", "rates"),
    [("H100", "1600 to 3200"), ("H800", "1600 to 3200"), ("RTX 4090", "50 to 800"), ("H200", "3200")],
)
def test_without_what_joins_the_nodes_a_step_is_between_what_such_nodes_have(gpu: str, rates: str) -> None:
    shape = ("--model", "gpt2", "--world-size", "16", "--gpu", gpu)
    estimate = answer(*shape)
    assert estimate["communication"]["seconds"] is estimate["communication"]["exposed_seconds"] is None
    assert (
        f"the network between nodes; give --nics and --nic-gbit, or --node-type; the step is of {rates}"
        in estimate["unknown"][0]
    )
    low, high = estimate["step_seconds"]
    for rate in rates.split(" to "):
        said = answer(*shape, "--nics", "1", "--nic-gbit", rate)
        assert said["communication"]["seconds"] > 0
        assert low <= said["step_seconds"][0] < said["step_seconds"][1] <= high
    assert answer("--model", "gpt2", "--gpu", gpu)["unknown"] == estimate["unknown"][1:]  # one node needs none


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--world-size", "16", "--node-gb-per-s", "100"), "the network between nodes; give --nics and"),
        (("--world-size", "8"), "the links within a node; give --gpu"),
    ],
)
def test_without_a_network_times_are_unknown_and_the_rest_is_not(options: tuple[str, ...], what: str) -> None:
    estimate = answer("--model", "gpt2", *options)
    assert estimate["communication"]["seconds"] is estimate["communication"]["exposed_seconds"] is None
    assert estimate["step_seconds"] is estimate["cost"] is None
    assert estimate["communication"]["message_bytes"] == 4 * 124_439_808
    assert estimate["memory"]["peak"] > 0
    assert what in estimate["unknown"][0]
    assert "unknown" in CliRunner().invoke(command, ["--model", "gpt2", *options]).output


def test_a_measured_bandwidth_replaces_the_assumed_one() -> None:
    base = ("--model", "gpt2-xl", "--world-size", "16", "--gpu", "A100")
    slow = answer(*base, "--bandwidth", "10")["communication"]["seconds"]
    fast = answer(*base, "--bandwidth", "100")["communication"]["seconds"]
    assert slow == pytest.approx(10 * fast, rel=0.06)  # the rest is latency


def result_file(folder: Path, **changes: Any) -> str:
    measured = run_result(sweep("all_reduce", sizes=(8, 2**30)), cluster=cluster(2, 8)).to_json() | changes
    path = folder / "result.json"
    path.write_text(json.dumps(measured))
    return str(path)


def test_a_runs_result_gives_bandwidth_and_latency(tmp_path: Path) -> None:
    path = result_file(tmp_path)
    measured = json.loads(Path(path).read_text())["benchmarks"][0]["points"]
    options = ("--model", "gpt2", "--world-size", "16", "--gpu", "H100", "--result", path)
    estimate = answer(*options)
    sent = estimate["communication"]["wire_bytes_per_rank"]
    count = estimate["communication"]["collectives_per_step"]
    expected = sent / measured[-1]["busbw_gb_per_s"] / 1e9 + count * measured[0]["seconds"]["median"]
    assert estimate["communication"]["seconds"] == pytest.approx(expected)
    assert "measured by run" in estimate["basis"]["all ranks"]
    given = answer(*options, "--bandwidth", "1")["communication"]["seconds"]
    assert given == pytest.approx(sent / 1e9, rel=0.05)
    for asked, words in ((command, options), (plan_command, ("gpt2", "--nodes", "2", *options[4:]))):
        shown = CliRunner().invoke(asked, [*words]).output
        assert "links measured: " in shown
        assert "nothing was measured" not in shown


def test_a_measured_network_holds_for_the_groups_of_a_cut_model_as_well(tmp_path: Path) -> None:
    """``plan`` with a result alone was refused; with a node type it took the line rate for all but the whole world."""
    slow = ("--result", result_file(tmp_path))
    hybrid = ("--model", "llama-8b", "--world-size", "16", "--strategy", "fsdp-hybrid", "--batch-size", "1")
    fast, measured = (answer(*hybrid, "--node-type", "p5.48xlarge", *also)["communication"] for also in ((), slow))
    assert measured["seconds"] > 2 * fast["seconds"]
    lone = answer(*hybrid, "--gpu", "H100", *slow)["communication"]
    assert lone["seconds"] == pytest.approx(measured["seconds"], rel=0.01)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is no JSON"),
        ("[]", "it has no schema"),
        ('{"schema": "raybench.diagnosis/1"}', "is no raybench.result/1"),
        ('{"schema": "raybench.result/1", "benchmarks": []}', "is not whole"),
        (
            '{"schema":"raybench.result/1","benchmarks":[{"name":"all_reduce","points":[{"busbw_gb_per_s":1}]}]}',
            "is not whole",
        ),
    ],
)
def test_another_file_is_no_result(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)
    assert words in refusal("--gpu", "H100", "--world-size", "16", "--result", str(path))


def test_a_bridge_that_nobody_mentioned_is_not_counted_on() -> None:
    card = answer("--gpu", "H100 PCIe", "--world-size", "8", "--model", "gpt2")["basis"]["links within a node"]
    assert card.startswith("80% of 63 GB/s, PCIe 5")
    assert "with a bridge give --node-gb-per-s" in card
    assert answer("--gpu", "H100", "--world-size", "8", "--model", "gpt2")["basis"]["links within a node"].startswith(
        "80% of 450"
    )
