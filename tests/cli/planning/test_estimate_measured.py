"""``--measured``: a training that somebody ran corrects the estimate of another."""

import json
import shlex
from typing import Any

import pytest
from click.testing import CliRunner

from raybench.cli.estimate import command as estimate
from raybench.cli.planning.plan import command as plan
from raybench.errors import UsageError

ASKED = ("--model", "llama-8b", "--world-size", "64", "--strategy", "fsdp", "--node-type", "p5.48xlarge")
PLAN = ("llama-8b", "--nodes", "8", "--node-type", "p5.48xlarge", "--tokens", "100B")


def told(*options: str, command: Any = estimate) -> dict[str, Any]:
    result = CliRunner().invoke(command, [*options, "--json"], catch_exceptions=False)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def width(found: dict[str, Any]) -> float:
    low, high = found["step_seconds"]
    return float(high / low)


def test_a_run_on_one_node_makes_the_bounds_of_eight_narrower() -> None:
    alone, node = told(*ASKED), told(*ASKED[:3], "8", *ASKED[4:])
    took = (node["step_seconds"][0] * node["step_seconds"][1]) ** 0.5
    found = told(*ASKED, "--measured", f"--world-size 8 took={took:.4f}")
    assert width(found) < 0.75 * width(alone)
    assert found["uncorrected_step_seconds"] == alone["step_seconds"]
    assert found["own_runs"] == [
        {
            "text": f"--measured '--world-size 8 took={took:.4f}'",
            "step_seconds": pytest.approx(took, rel=1e-3),
            "told_seconds": pytest.approx(took, rel=0.2),
            "is_odd": False,
            "by_others_seconds": None,
        }
    ]
    assert found["memory"] == alone["memory"]
    slower = told(*ASKED, "--measured", f"--world-size 8 took={1.4 * took:.4f}")
    assert slower["step_seconds"][0] > 1.2 * found["step_seconds"][0]
    assert slower["tokens_per_second"][0] < found["tokens_per_second"][0]


def test_tokens_a_second_are_those_of_all_ranks() -> None:
    rate = 8 * 2 * 4096 / 0.9
    one, *others = (
        told(*ASKED, "--measured", f"--world-size 8 --batch-size 2 {figure}")
        for figure in ("took=0.9s", f"tokens-per-second={rate:,.2f}", f"tokens-per-second-per-rank={rate / 8}")
    )
    for other in others:
        assert one["step_seconds"] == pytest.approx(other["step_seconds"], rel=1e-4)


def test_a_run_on_another_machine_is_not_on_the_one_that_is_asked_about() -> None:
    found = told(*ASKED, "--measured", "--gpu A100 --world-size 8 took=1.4")
    assert 0.5 < found["own_runs"][0]["step_seconds"] / found["own_runs"][0]["told_seconds"] < 1.5
    same = told(*ASKED, "--measured", "--world-size 8 took=1.4")
    assert same["own_runs"][0]["told_seconds"] < 0.7 * found["own_runs"][0]["told_seconds"]


def the_told(*options: str) -> float:
    """What the one run that is given is told to take."""
    (own,) = told(*options)["own_runs"]
    return float(own["told_seconds"])


def test_another_machine_has_none_of_the_links_and_nodes_that_are_asked_about() -> None:
    run = ("--measured", "--gpu A100 --world-size 16 took=1.5")
    own = the_told(*ASKED, *run)
    slow = ("--nic-gb-per-s", "5", "--node-gb-per-s", "5", "--latency-us", "900", "--memory", "60G")
    assert the_told(*ASKED, *slow, *run) == own
    assert the_told(*ASKED, *slow, "--measured", "--world-size 16 took=4") > 3 * the_told(
        *ASKED, "--measured", "--world-size 16 took=0.6"
    )
    half = (*ASKED[:6], "--gpu", "H100", "--gpus-per-node", "4", "--measured")
    whole = (*ASKED[:6], "--gpu", "H100", "--measured")
    text = "--node-type p4d.24xlarge --world-size 8 took=1.4"  # one node of 8, no two of 4
    assert the_told(*half, text) == the_told(*whole, text)


def test_naming_the_same_machine_again_changes_nothing() -> None:
    run = "--world-size 16 took=0.6"
    asked = (*ASKED, "--nic-gb-per-s", "100")
    one, *others = (
        told(*asked, "--measured", f"{same} {run}") for same in ("", "--gpu h100", "--node-type p5.48xlarge")
    )
    for other in others:
        assert other["step_seconds"] == one["step_seconds"]
        assert other["own_runs"][0]["told_seconds"] == one["own_runs"][0]["told_seconds"]


def test_the_same_run_twice_says_what_it_says_once() -> None:
    runs = ("--measured", "--world-size 8 took=0.7", "--measured", "took=0.70 --world-size 8")
    once, twice = told(*ASKED, *runs[:2]), told(*ASKED, *runs)
    assert twice["step_seconds"] == once["step_seconds"]
    assert len(twice["own_runs"]) == 1


def test_sizes_and_adapters_that_are_asked_about_are_none_of_another_training() -> None:
    text = "--model llama-70b --world-size 16 took=4"
    assert the_told(*ASKED, "--layers", "16", "--measured", text) == the_told(*ASKED, "--measured", text)
    adapters = ("--qlora", "--lora-rank", "8", "--lora-targets", "q_proj")
    whole = "--lora-rank 0 --world-size 8 took=0.6"
    assert the_told(*ASKED, *adapters, "--measured", whole) == the_told(*ASKED, "--measured", whole)


def test_a_run_may_be_without_what_is_asked_about() -> None:
    flags = ("--activation-checkpointing", "--offload-activations")
    text = "--world-size 8 took=0.6"
    without = "--no-activation-checkpointing --no-offload-activations"
    assert the_told(*ASKED, *flags, "--measured", f"{without} {text}") == the_told(*ASKED, "--measured", text)
    assert the_told(*ASKED, *flags, "--measured", text) > 1.1 * the_told(*ASKED, "--measured", text)


@pytest.mark.parametrize("took", [0.1, 0.3, 0.5, 0.8, 2.0, 4.0])
def test_the_very_training_is_within_its_own_bounds_and_a_slower_one_makes_nothing_faster(took: float) -> None:
    low, high = told(*ASKED, "--measured", f"took={took}")["step_seconds"]
    assert low <= took <= high
    slower = told(*ASKED, "--measured", f"took={1.2 * took}")["step_seconds"]
    assert slower[0] > low
    assert slower[1] > high


def test_many_runs_are_a_line_of_the_screen_and_each_is_in_full() -> None:
    runs = [
        word
        for took in (0.5, 0.52, 0.54, 0.56, 3.1)
        for word in ("--measured", f"--world-size 8 --strategy fsdp --batch-size 1 took={took}")
    ]
    for command, asked in ((estimate, ASKED), (plan, PLAN)):
        short, full = (
            " ".join(CliRunner().invoke(command, [*asked, *runs, *more]).stdout.replace("#", " ").split())
            for more in ((), ("--full",))
        )
        assert "step corrected by 5 runs, whose steps took" in short
        assert short.count("step corrected by --measured") == 1  # the odd one
        assert "took=3.1" in short
        assert full.count("step corrected by --measured") == 5


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("--world-size 8", "needs one figure: took=SECONDS"),
        ("took=1 tokens-per-second=9", "needs one figure"),
        ("took=fast", "write a number above 0"),
        ("took=0", "write a number above 0"),
        ("took=inf", "write a number above 0"),
        ("--world-size 8 took=0,55", "write a number above 0"),  # no 55 s
        ("--world-size 8 tokens-per-second=6,0000", "write a number above 0"),
        ("--foo 3 took=1", "No such option"),
        ("--world-size eight took=1", "not a valid integer"),
        ("--model nothing took=1", "there is no model 'nothing'"),
        ("--price 3 took=1", "--price is nothing that a training is run with"),
        ("--json took=1", "--json is nothing that a training is run with"),
        ("--measured took=2 took=1", "needs one figure"),
        ("--help took=1", "of which --help is none"),
        ("'took=1", "No closing quotation"),
        ("--efficiency 0.4 took=1", "--efficiency is nothing that a training is run with"),
        ("--world-size 8 took=4000", "times what is told of it"),
        ("--world-size 8 took=0.001", "times what is told of it"),
    ],
)
def test_a_run_that_cannot_be_one_says_why(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as raised:
        CliRunner().invoke(estimate, [*ASKED, "--measured", text], catch_exceptions=False)
    assert "--measured" in str(raised.value)


def test_what_cannot_be_of_a_run_names_the_run() -> None:
    asked = ("--model", "mixtral-8x7b", *ASKED[2:], "--expert-parallel", "8")
    with pytest.raises(UsageError, match="--measured '--model llama-8b took=1': --expert-parallel is 8"):
        told(*asked, "--measured", "--model llama-8b took=1")


def test_with_a_given_efficiency_runs_have_nothing_to_correct() -> None:
    with pytest.raises(UsageError, match="--efficiency"):
        told(*ASKED, "--efficiency", "0.4", "--measured", "--world-size 8 took=0.6")


def test_a_run_is_named_so_that_it_can_be_typed_again() -> None:
    text = "--model 'llama-8b' --world-size 8 took=0.6"
    (own,) = told(*ASKED, "--measured", text)["own_runs"]
    assert shlex.split(own["text"]) == ["--measured", text]


def test_without_a_step_time_runs_have_nothing_to_correct_either() -> None:
    with pytest.raises(UsageError, match="none is told here"):
        told(*ASKED[:6], "--measured", "--gpu H100 --world-size 8 took=0.6")


def test_the_screen_says_which_run_corrects_and_what_it_is_without() -> None:
    text = CliRunner().invoke(estimate, [*ASKED, "--measured", "--world-size 8 took=0.6"]).stdout
    flat = " ".join(text.replace("#", " ").split())
    assert "raybench estimate, corrected by 1 run" in flat
    assert "step corrected by --measured '--world-size 8 took=0.6': a step took 600.00 ms, " in flat
    assert "times the likely one; without it 3" in flat


@pytest.mark.parametrize(
    ("took", "note"), [(2.4, "slower than nearly all"), (0.1, "faster than nearly all"), (0.6, "")]
)
def test_a_run_that_is_further_off_than_trainings_are_is_remarked_on(took: float, note: str) -> None:
    text = CliRunner().invoke(estimate, [*ASKED, "--measured", f"--world-size 8 took={took}"]).stdout
    assert note in " ".join(text.replace("#", " ").split())
    assert ("than nearly all trainings are" in text.replace("\n#", "").replace("  ", " ")) is bool(note)


def test_a_plan_is_corrected_in_all_of_its_ways() -> None:
    alone = told(*PLAN, command=plan)
    run = "--world-size 8 --strategy fsdp --batch-size 1 took=0.8"
    found = told(*PLAN, "--measured", run, command=plan)
    assert [one["text"] for one in found["own_runs"]] == [f"--measured '{run}'"]
    before, after = (
        next(way for way in one["ways"] if way["strategy"] == "fsdp" and not way["activation_checkpointing"])
        for one in (alone, found)
    )
    assert after["tokens_per_second"][1] < before["tokens_per_second"][1]
    few = found["fewest_nodes"]
    assert few is not None
    assert few["tokens_per_second"][1] < alone["fewest_nodes"]["tokens_per_second"][1]
    with pytest.raises(UsageError, match="does not say --strategy and --batch-size"):
        told(*PLAN, "--measured", "--world-size 8 took=0.6", command=plan)


def test_a_plan_says_where_a_slow_run_puts_a_way_first_that_nobody_ran() -> None:
    """Ways that are unlike a run are slowed by less of it, as published trainings are: ZeRO-1 became the first."""
    asked = ("llama-8b", "--nodes", "4", "--node-type", "p5.48xlarge")
    run = "--strategy fsdp --batch-size 1 --gradient-accumulation-steps 8 took="
    first = told(*asked, command=plan)["ways"][0]["strategy"]
    for took, moved in (("9", True), ("4.3", False), ("3", False)):
        found = told(*asked, "--measured", run + took, command=plan)
        assert found["first_without_runs"] == (first if moved else None), took
        assert (found["ways"][0]["strategy"] == "zero1") is moved
    assert found["ways"][0]["strategy"] == "fsdp"  # the way that was run
    shown = CliRunner().invoke(plan, [*asked, "--measured", run + "9"]).stdout
    assert f"without this run {first} is first; measure zero1" in " ".join(shown.replace("#", " ").split())


def test_runs_of_one_training_that_contradict_each_other_are_told() -> None:
    asked = ("llama-8b", "--nodes", "4", "--node-type", "p5.48xlarge")
    runs = [f"--measured=--strategy fsdp --batch-size 1 --gradient-accumulation-steps 8 took={took}" for took in (3, 6)]
    shown = " ".join(CliRunner().invoke(plan, [*asked, *runs]).stdout.replace("#", " ").split())
    assert shown.count("other runs contradict it: by them it takes") == 2
    assert "contradict" not in CliRunner().invoke(plan, [*asked, runs[0], runs[0].replace("=3", "=3.4")]).stdout


def test_a_run_by_a_program_is_as_a_plan_starts_that_program() -> None:
    asked = (*PLAN, "--program", "torchtitan")
    alone = told(*asked, command=plan)
    found = told(*asked, "--measured", "--world-size 8 --strategy fsdp --batch-size 2 took=0.9", command=plan)
    before, after = (
        next(way for way in one["ways"] if way["strategy"] == "fsdp" and not way["activation_checkpointing"])
        for one in (alone, found)
    )
    wide, narrow = (one["tokens_per_second"][1] / one["tokens_per_second"][0] for one in (before, after))
    assert narrow < 0.85 * wide
