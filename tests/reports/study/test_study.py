"""A study's result on the screen and on the page: every figure in its table, nothing that a node said let loose."""

import io
import json
import re
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
from msgspec.structs import replace

from raybench.documents.price import Price
from raybench.documents.study.plan import Settings, Study, Trial
from raybench.documents.study.result import StudyResult
from raybench.reports.html import render_html
from raybench.reports.study.cells import overhead
from raybench.reports.study.figure import interval_bars
from raybench.reports.study.plots import _changes
from raybench.reports.study.view import study_sections
from raybench.reports.terminal.report import print_document
from raybench.studies.network import network_variant
from raybench.studies.result import result_of
from raybench.studies.scaling import scaling_variants
from raybench.studies.strategy import strategy_variant
from raybench.studies.sweep import batch_variant, model_variant
from tests.studies.sample import outcomes_of, run_result, training_point

FAST = 10_000_000


def network_content(*, label: str = "ddp tiny", emulated: bool = False) -> StudyResult:
    plan = Study(
        kind="network", workload=("train",), repeats=3, seed=9,
        variants=tuple(map(network_variant, ("slow=eth0", "fast=eth1", "rdma"))),
    )  # fmt: skip

    def trained(trial: Trial) -> dict[str, Any]:
        seconds = (1.0 if trial.variant == "slow" else 0.2) * (1 + trial.number / 100)
        device = "eth0" if trial.variant == "slow" else "eth1"
        return run_result([training_point(seconds, label=label)], traffic={device: FAST}, emulated=emulated)

    return reread(result_of("network-1", plan, outcomes_of(plan, trained)))


def scaling_content(**changes: Any) -> StudyResult:
    """The nodes, rates and price of the seed's table: 1.46, 2.80 and 5.50 samples/s, 512 tokens each, 0.60 an hour."""
    plan = Study(
        kind="scaling", workload=("train",), variants=scaling_variants((1, 2, 4), ("weak",), 8), repeats=3, seed=1
    )
    rates = {1: 1.46, 2: 2.80, 4: 5.50}

    def trained(trial: Trial) -> dict[str, Any]:
        nodes = plan.variant(trial.variant).facts.nodes
        seconds = 8 * nodes / rates[nodes]
        point = training_point(seconds, ranks=nodes, tokens_per_sample=512, **changes)
        return run_result([point], nodes=[f"n{number}" for number in range(nodes)])

    price = Price(per_node_hour=0.6, source="given")
    return reread(result_of("scaling-1", plan, outcomes_of(plan, trained), price=price))


def strategy_content() -> StudyResult:
    plan = Study(
        kind="strategy", workload=("train",), variants=tuple(map(strategy_variant, ("ddp", "fsdp"))), repeats=3, seed=1
    )
    seconds = {"ddp": 0.1, "fsdp": 0.2}
    made = outcomes_of(plan, lambda trial: run_result([training_point(seconds[trial.variant])]))
    return reread(result_of("strategy-1", plan, made))


def reread(study: StudyResult) -> StudyResult:
    """As read from its file."""
    return StudyResult.of_json(json.loads(msgspec.json.encode(study.to_json())), "it")


def printed(content: StudyResult, width: int = 200) -> str:
    stream = io.StringIO()
    print_document(content, stream, full=True, width=width)
    return stream.getvalue()


def table(content: StudyResult, title: str) -> list[dict[str, str]]:
    section = next(section for section in study_sections(content) if section.title.startswith(title))
    return [dict(zip(section.grid.headings, (cell.text for cell in row), strict=True)) for row in section.grid.rows]


def test_the_seeds_table_of_nodes_rates_efficiency_and_cost() -> None:
    rows = table(scaling_content(), "Cost, weak")
    assert [row["nodes"] for row in rows] == ["1", "2", "4"]
    assert [row["samples/s"] for row in rows] == ["1.46", "2.80", "5.50"]
    assert [row["tokens/s"] for row in rows] == ["747.52", "1433.60", "2816.00"]
    assert [row["efficiency"] for row in rows] == ["100%", "96%", "94%"]
    assert [row["time for 10K samples"] for row in rows] == ["114 min 9 s", "59 min 31 s", "30 min 18 s"]
    assert [row["cost of them"] for row in rows] == ["1.14 USD", "1.19 USD", "1.21 USD"]
    assert [row["cost per 1K samples"] for row in rows] == ["0.1142 USD", "0.1190 USD", "0.1212 USD"]


def test_the_seeds_summary_of_speedup_and_efficiency() -> None:
    rows = table(scaling_content(), "Weak scaling")
    assert [(row["nodes"], row["ranks"], row["speedup"]) for row in rows] == [
        ("1", "1", "1.00x"),
        ("2", "2", "1.92x"),
        ("4", "4", "3.77x"),
    ]
    assert rows[1]["scaling"] == "excellent"
    assert rows[2]["loss"] == "4.5000"
    projected = table(scaling_content(), "PROJECTION")
    assert [row["nodes"] for row in projected][-1] == "1000"
    assert all(row[""] == "PROJECTION" for row in projected)


def test_the_seeds_table_of_networks() -> None:
    rows = table(network_content(), "Networks")
    assert [(row["network"], row["used"]) for row in rows] == [("slow", "proved"), ("fast", "proved")]
    assert rows[1]["overhead"] == "30% moderate"
    (speedup,) = table(network_content(), "Speedup over slow")
    assert float(speedup["speedup"].removesuffix("x")) == pytest.approx(5.0, abs=0.1)
    assert float(speedup["of gradient sync"].removesuffix("x")) == pytest.approx(5.0, abs=0.1)
    assert speedup["at most"] == "1.43x"


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("make", [network_content, scaling_content, strategy_content])
def test_no_line_is_wider_than_the_terminal(make: Any, width: int) -> None:
    lines = printed(make(), width).splitlines()
    assert [line for line in lines if len(line) > width and not line.startswith("# results")] == []


def test_problems_and_emulation_are_not_overlooked() -> None:
    text = printed(network_content())
    assert "PROBLEM: rdma is refused" in text
    assert "EMULATED" not in text
    emulated = network_content(emulated=True)
    assert printed(emulated).count("EMULATED") == 2
    assert "EMULATED" in render_html(emulated)
    assert "EMULATED" not in render_html(network_content())


@pytest.mark.parametrize("make", [network_content, scaling_content, strategy_content])
def test_the_page_is_whole_valid_and_alone(make: Any) -> None:
    page = render_html(make())
    assert page == render_html(make())
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "<script" not in page
    svgs = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert svgs
    ids = [found for svg in svgs for found in re.findall(r' id="([^"]+)"', svg)]
    assert len(ids) == len(set(ids))
    for svg in svgs:
        ET.fromstring(svg)


def test_the_scaling_page_has_its_plots() -> None:
    page = render_html(scaling_content())
    for title in ("Speedup, weak", "Efficiency, weak", "Throughput, weak", "PROJECTION to 1000 nodes", "Trials in the"):
        assert f"<h3>{title}" in page
    assert "75% threshold" in page
    assert "ideal (linear)" in page


def scaling_of_two_repeats() -> StudyResult:
    """The second repeat is half as fast on two nodes: an interval of many powers of ten, which the table leaves out."""
    variants = scaling_variants((1, 2), ("weak",), 8)
    plan = Study(kind="scaling", workload=("train",), variants=variants, repeats=2, seed=1)

    def trained(trial: Trial) -> dict[str, Any]:
        nodes = plan.variant(trial.variant).facts.nodes
        seconds = 0.1 * (2 if trial.block and nodes == 2 else 1)
        return run_result([training_point(seconds, ranks=nodes)], nodes=[f"n{number}" for number in range(nodes)])

    return reread(result_of("scaling-2", plan, outcomes_of(plan, trained)))


def test_an_interval_that_says_nothing_is_not_drawn() -> None:
    content = scaling_of_two_repeats()
    assert content.answer.modes[0].rows[1].speedup.high > 10
    assert "too few repeats" in printed(content)
    assert interval_bars([row.speedup for row in content.answer.modes[0].rows]) == [[0.0, 0.0], [0.0, 0.0]]
    three = scaling_content().answer.modes[0].rows
    assert all(isinstance(end, float) for side in interval_bars([row.speedup for row in three]) for end in side)


def test_two_trials_are_as_far_from_their_median_as_each_other() -> None:
    trials = [one for one in scaling_of_two_repeats().trials if one.trial.variant.endswith("2")]
    assert [round(abs(change), 1) for change in _changes(trials)] == [33.3, 33.3]


def test_what_nodes_said_is_escaped() -> None:
    content = network_content(label="\x1b[31m<script>alert(1)</script>")
    text, page = printed(content), render_html(content)
    assert "\x1b" not in text + page
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_a_study_of_nothing_can_be_shown() -> None:
    plan = Study(kind="network", workload=("train",), variants=(network_variant("tcp"),), repeats=3, seed=1)
    content = reread(result_of("s", plan, outcomes_of(plan, lambda _: None)))
    assert "failed: 0 of 3 trials complete" in printed(content)
    assert "was not begun" in render_html(content)


def test_the_seeds_table_of_metrics_by_network() -> None:
    rows = {row["metric"]: row for row in table(network_content(), "Metric by metric")}
    assert list(rows) == ["throughput (samples/s)", "gradient sync", "time", "time of 10000 samples"]
    for metric in ("throughput (samples/s)", "gradient sync", "time of 10000 samples"):
        assert float(rows[metric]["fast speedup"].removesuffix("x")) == pytest.approx(5.0, abs=0.1)
    assert rows["gradient sync"]["slow"].endswith("ms")


def test_two_workloads_of_a_network_keep_their_names() -> None:
    content = network_content()
    rows = content.answer.rows
    again = tuple(replace(row, label="fsdp tiny") for row in rows)
    both = replace(content, answer=replace(content.answer, rows=(*rows, *again)))
    names = [row["metric"] for row in table(both, "Metric by metric")]
    assert "ddp tiny: time" in names
    assert "fsdp tiny: time" in names


def test_the_seeds_summary_of_runs() -> None:
    rows = table(scaling_content(), "Benchmark results")
    assert [(row["ranks"], row["nodes"]) for row in rows] == [("1", "1")] * 3 + [("2", "2")] * 3 + [("4", "4")] * 3
    assert {row["configuration"] for row in rows} == {
        "1 rank, 1 node, batch 8", "2 ranks, 2 nodes, batch 8", "4 ranks, 4 nodes, batch 8",
    }  # fmt: skip
    assert [row["time/epoch (s)"] for row in rows[::3]] == ["6849.32", "3571.43", "1818.18"]
    assert {row["loss"] for row in rows} == {"4.5000"}
    assert "validation loss" not in rows[0], "nothing was held out"


def test_the_seeds_summary_has_what_held_out_samples_gave() -> None:
    seen = [
        {"step": step, "epoch": step / 10, "loss": loss, "accuracy": right, "samples": 307}
        for step, loss, right in ((0, 1.2, 0.3), (50, 0.1187, 0.953), (100, 0.1301, 0.951))
    ]
    study = scaling_content(validation=seen, facts={"data": "spiral"})
    for title in ("Benchmark results", "Weak scaling: the batch of a rank is the same"):
        assert {(row["validation loss"], row["accuracy"]) for row in table(study, title)} == {("0.1187", "95%")}
    notes = next(one.notes for one in study_sections(study) if one.title == "Benchmark results")
    assert notes[0].endswith("loss: of the last training step, on spiral")


def sweep_content(kind: str, price: Price | None = None) -> StudyResult:
    make = batch_variant if kind == "batch-size" else model_variant
    names = ("1", "4", "16") if kind == "batch-size" else ("tiny", "small", "gpt2")
    plan = Study(
        kind=kind, workload=("train",), variants=tuple(map(make, names)), repeats=3, seed=1,
        settings=Settings(epoch_samples=500),
    )  # fmt: skip
    seconds = dict(zip((variant.name for variant in plan.variants), (0.11, 0.14, 0.26), strict=True))
    parameters = {"tiny": 158_016, "small": 6_000_000, "gpt2": 124_000_000}

    def trained(trial: Trial) -> dict[str, Any]:
        batch = int(trial.variant.removeprefix("batch-")) if kind == "batch-size" else 8
        facts = {"parameters": parameters.get(trial.variant, 158_016)}
        return run_result([training_point(seconds[trial.variant], batch=batch, facts=facts, tflop_per_s_per_rank=0.01)])

    return reread(result_of("s", plan, outcomes_of(plan, trained), price=price))


def test_a_batch_study_is_shown_with_fit_knee_and_cost() -> None:
    content = sweep_content("batch-size", Price(per_node_hour=3.6, source="given"))
    rows = table(content, "Batch sizes")
    assert [row["configuration"] for row in rows] == ["batch-1", "batch-4", "batch-16"]
    assert rows[2]["cost per 1K samples"] == "0.0163 USD"  # 2 nodes, 16 x 2 samples in 0.26 s
    text, page = printed(content), render_html(content)
    assert "use batch-16: throughput still grows there; measure larger ones" in text
    assert "fit: time/step = 100.00 ms + 10.00 ms a sample of a rank; half of the throughput" in text
    assert "<h3>Throughput over the batch" in page
    assert "<h3>Time over" not in page


def test_a_model_study_is_shown_with_its_power() -> None:
    content = sweep_content("model-size")
    assert [row["parameters"] for row in table(content, "Models")] == ["0.158 M", "6 M", "124 M"]
    assert "use gpt2: the largest that was trained, 124 M parameters" in printed(content)
    assert "fit: time/step grows as parameters^0.1" in printed(content)
    assert "<h3>Time over the size of the model" in render_html(content)
    assert "cost" not in table(content, "Models")[0]


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0.196, "19.6% low"), (0.204, "20.4% moderate"), (0.2, "20% moderate"), (0.19, "19% low"), (0.404, "40.4% high")],
)
def test_an_overhead_never_looks_like_the_other_side_of_its_band(share: float, shown: str) -> None:
    assert overhead(share).text == shown
