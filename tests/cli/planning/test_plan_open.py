"""What nobody says of a plan's best way is told beside its figures, as ``raybench estimate`` tells it."""

import re
from dataclasses import replace

import pytest
from click.testing import CliRunner

from raybench.cli.planning.plan import command
from raybench.documents.estimate import OtherPrograms
from raybench.documents.loading import document_in
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.estimates.training_plan import plan_screen
from raybench.reports.model import Notes
from tests.cli.planning.answered import answer
from tests.cli.planning.planned import P5, planned


@pytest.mark.parametrize(
    ("model", "machine", "strategy"),
    [
        ("gpt2", ("--nodes", "2", "--node-type", "p5.48xlarge"), "ddp"),
        ("llama-8b", ("--nodes", "2", "--node-type", "a3-megagpu-8g"), "zero1"),
    ],
)
def test_the_bounds_of_a_plan_and_of_its_estimate_are_told_together(
    model: str, machine: tuple[str, ...], strategy: str
) -> None:
    """Of one training a plan told 95k to 183k tokens/s, an estimate 88k to 217k, and neither a word of the other."""
    plan = planned(model, *machine)
    best = plan["ways"][0]
    assert best["strategy"] == strategy
    each = ("--batch-size", f"{best['batch_size']}", "--gradient-accumulation-steps", f"{best['accumulation']}")
    told = answer("--model", model, "--world-size", "16", *machine[2:], "--strategy", strategy, *each, code=3)
    assert told["memory"]["peak"] > told["memory"]["device_bytes"] / 1.05  # by transformers, whose loss takes more
    assert plan["open_tokens_per_second"] == pytest.approx(told["tokens_per_second"], rel=0.01)
    assert plan["not_said"] == told["not_said"]
    (low, high), (least, most) = best["tokens_per_second"], plan["open_tokens_per_second"]
    assert least <= low < high < most


def test_the_program_that_is_printed_is_told_where_it_takes_longer_or_more() -> None:
    plan = planned("llama-8b", *P5)
    (other,) = plan["other_programs"]
    assert other["names"] == ["transformers"]
    assert other["more_memory"] > 1.05
    shown = " ".join(CliRunner().invoke(command, ["llama-8b", *P5]).stdout.replace("#", "").split())
    either = r"not said: --compile.* tokens/s either way; by transformers up to 1[.\d]*x time, 1"
    assert re.search(either, shown), shown
    whole = " ".join(CliRunner().invoke(command, ["llama-8b", *P5, "--full"]).stdout.replace("#", "").split())
    assert "out of the bounds: transformers: 1" in whole


@pytest.mark.parametrize(
    "said",
    [
        (("llama-70b", *P5, "--program", "megatron-lm")),  # which decides all of it
        (("llama-405b", "--gpu", "H100")),  # nothing fits
        (("mixtral-8x7b", *P5, "--native-attention")),  # of Megatron-LM alone
        (("llama-70b", *P5, "--method", "lora")),  # of trl, and estimated so
    ],
)
def test_where_nothing_is_open_nothing_is_told_of_it(said: tuple[str, ...]) -> None:
    plan = planned(*said, code=1 if "llama-405b" in said else 0)
    assert (plan["not_said"], plan["open_tokens_per_second"], plan["other_programs"]) == ([], None, [])


@pytest.mark.parametrize(
    ("faster", "slower", "more", "told"),
    [
        (1.09, 1.2, 1.1, "; by trl up to 1.2x time, 1.1x memory"),
        (1.0, 1.3, 1.0, "; by trl up to 1.3x time"),
        (1.09, 1.0, 1.0, " tokens/s either way"),
    ],
)
def test_a_screen_has_what_a_program_takes_more(faster: float, slower: float, more: float, told: str) -> None:
    """``up to 0.92x time, 1.2x time`` stood there."""
    plan = document_in(planned("gpt2", "--node-type", "p5.48xlarge"), "a plan")
    other = OtherPrograms(
        names=("trl",), faster=faster, slower=slower, more_memory=more, less_memory=1.0, why=("all of it",)
    )
    blocks = plan_screen(replace(plan, other_programs=(other,)), Asked()).blocks
    texts = [note.text for block in blocks if isinstance(block, Notes) for note in block.items]
    assert [text.endswith(told) for text in texts if text.startswith("not said: ")] == [True]


def test_a_plan_that_hangs_on_experts_names_them() -> None:
    asked = ("mixtral-8x7b", "--qlora", "--gpu", "A100-80GB", "--gpus-per-node", "1")
    reason = planned(*asked, code=3)["reason"]
    by = "may fit, with experts in few bits (transformers from 5 on leaves them in 16)"
    assert reason.startswith(f"{by} and the leanest kernels and loss: ")
    assert planned(*asked, "--program", "transformers", code=3)["reason"].startswith(f"{by}: ")
    known = planned(*asked, "--program", "transformers==4.57")
    assert known["ways"][0]["fits"]
    assert not known["ways"][0]["experts_left_by"]
