"""``raybench estimate``: figures by hand, verdicts by exit code, nonsense refused."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from raybench.cli.estimate import command
from raybench.errors import UsageError


def answer(*options: str, code: int = 0) -> dict[str, Any]:
    result = CliRunner().invoke(command, [*options, "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def refusal(*options: str) -> str:
    result = CliRunner().invoke(command, options)
    if isinstance(result.exception, UsageError):
        return str(result.exception)
    assert result.exit_code == 2
    return result.output


FSDP = ("--model", "llama-8b", "--world-size", "64", "--strategy", "fsdp", "--node-type", "p5.48xlarge")


def test_an_estimate_has_every_figure() -> None:
    estimate = answer(*FSDP, "--epoch-samples", "1000000")
    assert estimate["schema"] == "raybench.estimate/1"
    assert estimate["nodes"] == 8
    assert estimate["memory"]["fits"] is True
    assert estimate["unknown"] == []
    low, high = estimate["step_seconds"]
    assert 0 < low < high
    assert estimate["tokens_per_second"][1] == pytest.approx(64 * 4096 / low)
    assert estimate["samples_per_second"][0] == pytest.approx(64 / high)
    flops, peak = estimate["model"]["flops_per_token"], 989.4e12
    assert estimate["mfu"][1] == pytest.approx(estimate["tokens_per_second"][1] * flops / 64 / peak)
    assert estimate["mfu"][1] < 0.5
    cost = estimate["cost"]
    assert cost["per_hour"] == pytest.approx(8 * 55.04)
    assert cost["per_epoch"][0] == pytest.approx(1000 * cost["per_1k_samples"][0])
    assert cost["per_million_tokens"][1] == pytest.approx(8 * 55.04 / 3600 * 1e6 / estimate["tokens_per_second"][0])


def test_a_model_that_does_not_fit_ends_with_1() -> None:
    estimate = answer("--model", "llama-70b", "--gpu", "H100", code=1)
    assert estimate["memory"]["fits"] is False
    assert estimate["memory"]["largest_batch_size"] == 0
    assert answer("--model", "llama-70b", "--gpu", "H100", "--memory", "2000G")["memory"]["fits"] is True


def test_without_a_gpu_time_is_unknown_and_traffic_is_not() -> None:
    estimate = answer("--model", "gpt2", "--world-size", "8", "--node-gb-per-s", "10")
    assert estimate["step_seconds"] is None
    assert estimate["mfu"] is None
    assert estimate["memory"]["fits"] is None
    assert estimate["communication"]["message_bytes"] == 4 * 124_439_808
    assert estimate["communication"]["seconds"] == pytest.approx(4 * 124_439_808 * 1.75 / 10e9, rel=0.01)
    assert len(estimate["unknown"]) == 3


def test_a_type_without_units_has_no_mfu() -> None:
    estimate = answer("--model", "gpt2", "--gpu", "V100", "--dtype", "bf16")
    assert estimate["mfu"] is None
    assert "V100 SXM2 32GB has no peak for bf16" in estimate["unknown"][0]


def test_a_measured_bandwidth_replaces_the_assumed_one() -> None:
    base = ("--model", "gpt2-xl", "--world-size", "16", "--gpu", "A100")
    slow = answer(*base, "--bandwidth", "10")["communication"]["seconds"]
    fast = answer(*base, "--bandwidth", "100")["communication"]["seconds"]
    assert slow == pytest.approx(10 * fast, rel=0.06)  # the rest is latency


def test_the_text_names_formulas_and_sources() -> None:
    result = CliRunner().invoke(command, FSDP)
    assert result.exit_code == 0
    for words in ("nothing was measured", "6 (N - lookups)", "list price of p5.48xlarge on 2026", "fits in 79.65 GiB"):
        assert words in result.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--model", "llama-9b"), "there is no model 'llama-9b'"),
        (("--gpu", "H900"), "not in the hardware table"),
        (("--node-type", "p9"), "there is no node type 'p9'"),
        (("--world-size", "0", "--gpu", "H100"), "at least 1"),
        (("--world-size", "12", "--gpu", "H100"), "spread evenly"),
        (("--world-size", "16", "--gpu", "H100"), "network between nodes"),
        (("--gpu", "H100", "--batch-size", "0"), "at least 1"),
        (("--gpu", "H100", "--efficiency", "fast"), "not LOW:HIGH"),
        (("--gpu", "H100", "--efficiency", "0.5:0.2"), "not a range"),
        (("--gpu", "H100", "--price", "-3"), "cannot cost"),
        (("--gpu", "H100", "--strategy", "zero"), "no strategy 'zero'"),
        (("--gpu", "H100", "--qlora"), "4-bit"),
        (("--gpu", "H100", "--nics", "8"), "belong together"),
        (("--gpu", "H100", "--node-gb-per-s", "nan"), "above 0"),
        (("--gpu", "H100", "--heads", "7"), "multiple of 7 heads"),
        (("--gpu", "H100", "--accumulation", "0"), "micro-batches"),
        (("--world-size", "8",), "links within a node"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_with_what_to_give(options: tuple[str, ...], words: str) -> None:
    assert words in refusal(*options)
