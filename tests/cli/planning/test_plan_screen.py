"""What a terminal shows of ``raybench plan``."""

import re

import pytest
from click.testing import CliRunner

from raybench.cli.planning.plan import command
from tests.cli.planning.planned import P5, planned


def test_what_has_no_room_says_what_it_needs_at_least() -> None:
    reason = planned("llama-8b", *P5, "--sequence-length", "8192", "--samples-per-step", "128")["reason"]
    assert re.search(r"\(\d+ left\)|\(\d+ at least\)", reason), reason


def test_what_does_not_fit_is_named_once_a_strategy() -> None:
    result = CliRunner(env={"COLUMNS": "400"}).invoke(command, ["llama-70b", *P5])
    line = next(line for line in result.stdout.splitlines() if "does not fit: " in line)
    names = re.findall(r"([\w-]+)(?:, selective)? \(", line)
    assert sorted(names) == ["ddp", "fsdp", "fsdp-grad-op", "fsdp-hybrid", "zero1", "zero2"]
    assert re.search(r"fit: fsdp, selective \(\d+ GiB\); even recomputed ", line)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("llama-8b", *P5, "--tokens", "15B"), ("raybench train --nodes 4 --strategy fsdp", "--full")),
        (("llama-70b", *P5, "--tokens", "1B", "--budget", "100"), ("misses the budget", "hours, 1,", "  8.")),
        (
            ("Qwen/Qwen3-32B", *P5),
            ("accelerate launch --num_machines", "per_device_train_batch_size", "    tokens/s     why not"),
        ),
        (
            ("llama-405b", "--nodes", "16", "--node-type", "p5.48xlarge", "--tokens", "1T"),
            ("# in all: ", " USD\n"),
        ),
        (("llama-8b", "--node-type", "p4d.24xlarge", "--tokens", "9B", "--deadline", "4d"), ("nodes are in time (",)),
        (("google/gemma-7b", "--gpu", "RTX 4090", "--gpus-per-node", "1", "--method", "qlora"), ("--load_in_4bit",)),
        (
            ("Qwen/Qwen3-32B", "--gpu", "A10"),
            (
                "# nearest that does: --nodes 4 (",
                "# or --kernels fused --loss fused --method qlora (",
                "even recomputed fsdp",
            ),
        ),
        (("gpt2", "--gpu", "H100", "--tokens", "100M"), (" s  ", " s in all")),
        (("gpt2", "--gpu", "H100", "--tokens", "5B"), (" min  ", " min in all")),
    ],
)
def test_it_is_one_screen_with_verdict_table_and_command(arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(command, arguments).stdout.splitlines()
    assert shown[0].startswith("# VERDICT: ")
    assert len(shown) <= 23
    assert max(map(len, shown)) <= 80
    assert [word for word in words if word not in "\n".join(shown)] == []


def test_what_fits_is_no_note_where_the_verdict_has_all_of_it() -> None:
    asked = ["mistral-7b", "--gpu", "RTX 4080", "--gpus-per-node", "1", "--method", "lora"]
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(command, asked).stdout
    assert "or --method qlora (ddp, recomputed: " in " ".join(shown.split())
    assert "\n# nearest that does" not in shown
    assert "tried too" not in shown


def test_a_plan_says_where_its_price_is_from_and_repeats_no_verdict_that_is_whole() -> None:
    asked = ["llama-8b", *P5, "--tokens", "15B"]
    whole = CliRunner(env={"COLUMNS": "400"}).invoke(command, [*asked, "--full"]).stdout
    assert "price: 55.04 USD a node and hour, list price of p5.48xlarge on 2" in whole
    assert "in all: " not in CliRunner(env={"COLUMNS": "80"}).invoke(command, asked).stdout
    assert planned(*asked[:1], "--gpu", "H100")["price"] is None


def test_ways_that_other_software_makes_faster_are_started_in_the_whole_report_too() -> None:
    said = CliRunner(env={"COLUMNS": "400"}).invoke(command, ["llama-70b", *P5, "--full"]).stdout
    assert "# Start zero1, TP 4, PP 8" in said
    assert "--tensor-model-parallel-size 4 --sequence-parallel --pipeline-model-parallel-size 8" in said
    assert "# Start fsdp, selective" not in said  # it does not fit


def test_a_screen_s_table_is_whole_and_says_what_faster_means() -> None:
    """Of DeepSeek-V3 the last column was cut to dots; "1.15x speed" stood under "why not" without a word."""
    wide = CliRunner(env={"COLUMNS": "80"}).invoke(
        command, ["deepseek-ai/DeepSeek-V3", "--nodes", "16", "--node-type", "p5en.48xlarge", "--tokens", "1B"]
    )
    table = [line for line in wide.stdout.splitlines() if "why not" in line or line.startswith(("  fsdp", "  zero"))]
    assert len(table) > 1
    assert not any(line.endswith("...") for line in table)
    assert re.search(r"(hours|h in all), 1,", wide.stdout)
    faster = CliRunner(env={"COLUMNS": "80"}).invoke(command, ["llama-8b", "--node-type", "p5.48xlarge"]).stdout
    (speed,) = re.findall(r"  (\d\.\d\dx speed)\n", faster)
    assert f"# {speed}: faster, by other software than PyTorch's own\n" in faster


def test_without_a_gpu_nothing_is_started() -> None:
    """A DDP of 235B on GPUs that nobody named, of 9.6 TiB each, was told how to start."""
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(command, ["Qwen/Qwen3-235B-A22B"]).stdout
    assert "start it" not in shown
    assert "# assumed: 8 GPUs a node (--gpus-per-node)" in shown


def test_what_would_fit_is_whole_below_a_verdict_that_is_cut() -> None:
    asked = ["llama-405b", "--gpu", "H100", "--nodes", "4"]
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(command, asked).stdout.splitlines()
    assert shown[1].endswith("...")
    assert any(line.startswith("# or --method qlora (fsdp, recomputed: ") and line.endswith(" GiB)") for line in shown)


def test_no_way_and_no_note_is_cut_in_its_middle_on_a_screen() -> None:
    """``reco...`` and ``1.01...`` stood in the table of a model that is cut three times."""
    asked = ["deepseek-v3", "--nodes", "256", "--node-type", "DGX H100", "--program", "megatron-lm", "--dtype", "fp8"]
    shown = (
        CliRunner(env={"COLUMNS": "80"}).invoke(command, [*asked, "--samples-per-step", "15360"]).stdout.splitlines()
    )
    rows = [line for line in shown if line.startswith("  zero1")]
    assert len(rows) >= 2
    assert not any("..." in row for row in rows)
    assert any(re.search(r"TP\d PP16 EP\d+.* +\d", row) for row in rows)
    assert max(map(len, shown)) <= 80


@pytest.mark.parametrize(("program", "told"), [((), True), (("--program", "torchtitan"), False)])
def test_what_raybench_train_trains_on_is_said_where_it_is_printed(program: tuple[str, ...], told: bool) -> None:
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(command, ["llama-8b", *P5, *program]).stdout
    assert ("raybench train has random data" in shown) is told
    assert "--full" in shown
