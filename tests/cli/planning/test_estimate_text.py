"""What ``raybench estimate`` shows, says of options that are open, and refuses."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from raybench.cli.estimate import command
from raybench.cli.show import command as show
from raybench.errors import UsageError
from raybench.performance_model.estimate.report import FORMULAS
from tests.cli.planning.answered import FSDP, answer, refusal


def test_it_prints_what_show_prints_of_its_document_each_figure_with_its_formula(tmp_path: Path) -> None:
    options = (*FSDP, "--epoch-samples", "1000000")
    (tmp_path / "estimate.json").write_text(json.dumps(answer(*options)))
    printed = CliRunner().invoke(command, (*options, "--full")).stdout
    assert CliRunner().invoke(show, [str(tmp_path / "estimate.json"), "--full"]).stdout == printed
    assert [name for name, formula in FORMULAS.items() if formula not in printed] == []
    assert "computation " in printed
    assert "that come and go" in printed
    assert printed.splitlines()[0] == printed.splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (FSDP, ("it fits", "tokens/s", "a million tokens", "--full")),
        (("--model", "llama-70b", "--gpu", "H100"), ("does not fit", "--world-size 32\n#   (62.", "unknown: cost")),
        (("--model", "gpt2", "--node-gb-per-s", "10"), ("unknown:", "communication", "needed of a GPU")),
        ((*FSDP, "--tp", "2", "--pp", "2", "--strategy", "zero1", "--epoch-samples", "1000"), ("pipeline bubble",)),
        ((*FSDP, "--lora-rank", "16"), ("8.03B parameters, 41.9M trained, 36.71 GFLOP a token",)),
    ],
)
def test_it_is_one_screen_with_the_verdict_first(options: tuple[str, ...], words: tuple[str, ...]) -> None:
    printed = CliRunner(env={"COLUMNS": "80"}).invoke(command, options).stdout
    lines = printed.splitlines()
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    assert not lines[0].startswith("# VERDICT") or lines[0] in lines[1:]
    assert [word for word in words if word not in printed] == []


@pytest.mark.parametrize(("length", "said"), [("131072", True), ("1024", False)])
def test_an_mfu_above_one_says_why(length: str, said: bool) -> None:
    gpus = ("--model", "gpt2", "--world-size", "8", "--gpu", "H100", "--strategy", "ddp", "--batch-size", "1")
    options = (*gpus, "--sequence-length", length, "--kernels", "fused", "--loss", "chunked")
    line = next(one for one in CliRunner().invoke(command, options).stdout.splitlines() if one.startswith("  MFU"))
    assert (float(line.split()[3].rstrip("%,")) > 100) == said
    assert ("that a causal mask drops" in line) == said


@pytest.mark.parametrize("price", [(), ("--price", "50")])
def test_an_epoch_has_time_and_cost_on_a_screen(price: tuple[str, ...]) -> None:
    """Its cost was one of three rows that a screen had no room for, its time nowhere, and without a price neither."""
    asked = ("--model", "qwen2.5-7b", "--gpu", "H100", "--strategy", "fsdp", "--epoch-samples", "1000000", *price)
    shown = CliRunner().invoke(command, asked, env={"COLUMNS": "80"}).stdout
    line = next(one for one in shown.splitlines() if one.startswith("  an epoch"))
    assert ("USD" in line) == bool(price)
    found = answer(*asked)
    rates, seconds = found["samples_per_second"], found["epoch_seconds"]
    assert seconds == [pytest.approx(10**6 / rates[1]), pytest.approx(10**6 / rates[0])]
    assert f"{seconds[0] / 3600:.4g} to {seconds[1] / 3600:.4g} hours" in line
    if price:
        assert found["cost"]["per_epoch"][1] == pytest.approx(50 * seconds[1] / 3600)
    assert "an epoch" not in CliRunner().invoke(command, asked[:6]).stdout


def test_the_text_names_formulas_and_sources() -> None:
    result = CliRunner().invoke(command, (*FSDP, "--full"))
    assert result.exit_code == 0
    for words in (
        "nothing was measured",
        "6 (N - lookups)",
        "list price of p5.48xlarge on 2026",
        "it fits: 29.05 GiB to 48.76 GiB, most likely 44.22 GiB, a GPU has 79.11 GiB",
    ):
        assert words in result.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--model", "llama-9b"), "there is no model 'llama-9b'"),
        (("--gpu", "H900"), "no GPU in the hardware table named 'H900'"),
        (("--node-type", "p9"), "there is no node type 'p9'"),
        (("--world-size", "0", "--gpu", "H100"), "must be from 1"),
        (("--world-size", "12", "--gpu", "H100"), "spread evenly"),
        (("--gpu", "H100", "--batch-size", "0"), "--batch-size is 0; it must be from 1"),
        (("--gpu", "H100", "--gpus-per-node", "0"), "--gpus-per-node is 0"),
        (("--gpu", "H100", "--kv-heads", "-1"), "--kv-heads is -1"),
        (("--layers", "1" + "0" * 30), "--layers is 1000"),
        (("--hidden", "2000000", "--heads", "8"), "hidden of a transformer is 2000000; it must be from 1 to 1000000"),
        (("--sequence-length", "9" * 22), "--sequence-length is 999"),
        (("--world-size", "1" + "0" * 30), "must be from 1 to 10000000"),
        (("--lora-rank", "8", "--lora-targets", "q_prj"), "did you mean 'q_proj' or"),
        (("--lora-rank", "-1"), "--lora-rank is -1"),
        (("--lora-targets", "q_proj"), "give --lora-rank"),
        (("--model", "gpt2", "--sequence-length", "2048", "--lora-rank", "8"), "a table of 1024 positions"),
        (("--nics", "1", "--nic-gbit", "1e-320"), "--nic-gbit is 9.99989e-321"),
        (("--nics", "8"), "belong together"),
        (("--model", "lama-8b"), "did you mean 'llama-8b'"),
        (("--node-type", "p5.48xlrge"), "did you mean 'p5.48xlarge'"),
        (("--gpu", "h101"), "did you mean 'h100'"),
        (("--strategy", "fdsp"), "did you mean 'fsdp'"),
        (("--gpu", "H100", "--efficiency", "fast"), "not LOW:HIGH"),
        (("--gpu", "H100", "--efficiency", "0.5:0.2"), "not a range"),
        (("--gpu", "H100", "--price", "-3"), "cannot cost"),
        (("--gpu", "H100", "--strategy", "zero"), "no strategy 'zero'"),
        (("--gpu", "H100", "--qlora"), "4-bit"),
        (("--recompute-modules", "core_atn"), "did you mean 'core_attn'"),
        (("--gpu", "H100", "--nics", "8"), "belong together"),
        (("--gpu", "H100", "--node-gb-per-s", "nan"), "must be from 1e-06"),
        (("--gpu", "H100", "--heads", "7"), "multiple of 7 heads"),
        (("--gpu", "H100", "--gradient-accumulation-steps", "0"), "--gradient-accumulation-steps is 0"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_with_what_to_give(options: tuple[str, ...], words: str) -> None:
    assert words in refusal(*options)


def test_the_most_likely_peak_is_said_where_the_least_and_the_most_are_apart() -> None:
    """The loss of a compiled model is mostly compiled with it; the most has one that is not."""
    asked = ("--model", "gpt2", "--world-size", "1", "--gpu", "H200", "--batch-size", "64", "--compile")
    memory = json.loads(CliRunner().invoke(command, [*asked, "--json"]).stdout)["memory"]
    parts = memory["allocated"] + memory["fragmentation"] + memory["context"]
    assert memory["likely_peak"] == parts
    assert memory["least_peak"] < 0.8 * memory["likely_peak"] < 0.8 * 0.8 * memory["peak"]
    likely = f"most likely {memory['likely_peak'] / 2**30:.2f} GiB"
    assert likely in " ".join(CliRunner().invoke(command, asked).stdout.replace("#", " ").split())
    known = [*asked, "--kernels", "plain", "--loss", "fused"]
    assert "most likely" not in CliRunner().invoke(command, known).stdout


def test_a_run_that_hangs_on_its_kernels_is_unknown_until_they_are_said() -> None:
    between = ("--model", "llama-8b", "--gpu", "H100", "--world-size", "8", "--strategy", "fsdp", "--sequence-length",
               "8192")  # fmt: skip
    said = CliRunner().invoke(command, [*between, "--json"])
    memory = json.loads(said.stdout)["memory"]
    assert (said.exit_code, memory["fits"]) == (3, None)
    assert memory["least_peak"] < memory["device_bytes"] < memory["peak"]
    assert memory["nearest_peak"] < memory["device_bytes"]
    fused = CliRunner().invoke(command, [*between, "--json", "--kernels", "fused", "--loss", "chunked"])
    known = json.loads(fused.stdout)["memory"]
    assert (fused.exit_code, known["fits"]) == (0, True)
    assert known["least_peak"] == memory["least_peak"] < known["peak"]  # fused kernels differ in what they keep
    assert known["peak"] < memory["peak"]
    near = CliRunner().invoke(command, [*between[:-1], "8192", "--kernels", "plain", "--loss", "fused", "--no-compile"])
    assert near.exit_code == 3
    assert "with what PyTorch's allocator holds besides" in " ".join(near.stdout.replace("#", " ").split())
    heaviest = [*between[:-1], "7680", "--kernels", "plain", "--loss", "transformers", "--no-compile"]
    plain = CliRunner().invoke(command, [*heaviest, "--no-activation-checkpointing"])
    assert plain.exit_code == 1
    assert "nearest that fits: --kernels fused --loss fused" in " ".join(plain.stdout.replace("#", " ").split())


def test_what_fits_only_with_blocks_computed_again_is_open_until_it_is_said() -> None:
    """Of twelve published rows that did not fit without, and said nothing of it, nine ran."""
    asked = ["--model", "gemma-3-27b-pt", "--gpu", "H200", "--world-size", "8", "--strategy", "fsdp", "--loss",
             "chunked", "--sequence-length", "8192", "--json"]  # fmt: skip
    unsaid, off, on = (
        json.loads(CliRunner().invoke(command, [*asked, *words]).stdout)
        for words in ([], ["--no-activation-checkpointing"], ["--activation-checkpointing"])
    )
    assert [one["memory"]["fits"] for one in (unsaid, off, on)] == [None, False, True]
    assert unsaid["memory"]["recomputed_peak"] <= on["memory"]["peak"] < off["memory"]["device_bytes"]
    assert unsaid["memory"]["least_peak"] == off["memory"]["least_peak"]
    assert ["--activation-checkpointing" in one["not_said"] for one in (unsaid, off)] == [True, False]
    assert unsaid["step_seconds"][1] >= on["step_seconds"][1] > off["step_seconds"][1]
    told = " ".join(CliRunner().invoke(command, asked[:-1]).stdout.replace("#", " ").split())
    assert "it fits only with --activation-checkpointing (" in told


def test_what_fits_one_size_of_a_gpu_alone_is_open_until_the_size_is_said() -> None:
    asked = ["--model", "llama-8b", "--world-size", "4", "--strategy", "fsdp", "--activation-checkpointing",
             "--kernels", "plain", "--loss", "plain", "--no-compile", "--batch-size", "4", "--json"]  # fmt: skip
    named, small, large = (
        json.loads(CliRunner().invoke(command, [*asked, *words]).stdout)["memory"]
        for words in (["--gpu", "A100"], ["--gpu", "a100-40gb"], ["--gpu", "a100", "--memory", "80G"])
    )
    assert [one["fits"] for one in (named, small, large)] == [None, False, True]
    assert named["other_device_bytes"] == [small["device_bytes"]]
    assert named["peak"] == small["peak"] == large["peak"]
    told = CliRunner().invoke(command, [*asked[:-1], "--gpu", "A100"]).stdout.replace("#", " ")
    assert "say which (--memory, --node-type)" in " ".join(told.split())


def test_a_run_that_may_be_compiled_may_fit_where_it_otherwise_does_not() -> None:
    """It was told that it does not fit, and with --compile that it does."""
    asked = ("--model", "llama-8b", "--gpu", "H100", "--strategy", "fsdp", "--sequence-length", "9216", "--kernels",
             "plain", "--loss", "fused", "--no-activation-checkpointing")  # fmt: skip
    open_, eager, compiled = (
        CliRunner().invoke(command, [*asked, *more]) for more in ([], ["--no-compile"], ["--compile"])
    )
    assert [one.exit_code for one in (open_, eager, compiled)] == [3, 1, 0]
    assert "say --program, or --compile or --no-compile" in " ".join(open_.stdout.replace("#", " ").split())


@pytest.mark.parametrize("targets", [",", "q_proj,", ""])
def test_a_list_of_layers_with_an_empty_part_is_not_all_of_them(targets: str) -> None:
    with pytest.raises(UsageError, match=r"has an empty part; write names such as q_proj,v_proj"):
        CliRunner().invoke(command, ["--lora-rank", "8", "--lora-targets", targets], catch_exceptions=False)


# Samples of transformers, which may be padded where there are several.
PADDED = (
    *("--model", "llama-8b", "--gpu", "A100", "--batch-size", "2", "--kernels", "plain", "--loss", "transformers"),
    "--no-compile",
)


@pytest.mark.parametrize(
    ("arguments", "advice", "not_said"),
    [
        (("--model", "gpt2", "--gpu", "H200"), 1, ["--compile", "--kernels", "--loss", "--native-attention"]),
        (
            ("--model", "gpt2", "--gpu", "H200", "--vocabulary", "50304", "--native-attention", "--compile"),
            0,
            ["--kernels", "--loss"],
        ),
        (("--model", "gpt2", "--gpu", "A100", "--kernels", "fused", "--loss", "fused", "--dtype", "fp32"), 0, []),
        ((*PADDED,), 0, ["--masked-attention"]),
        ((*PADDED, "--no-masked-attention"), 0, []),
        ((*PADDED, "--masked-attention"), 0, []),
        ((*PADDED, "--batch-size", "1"), 0, []),
    ],
)
def test_what_is_open_or_slow_is_said_and_what_is_given_is_not(
    arguments: tuple[str, ...], advice: int, not_said: list[str]
) -> None:
    found = json.loads(CliRunner().invoke(command, [*arguments, "--world-size", "1", "--json"]).stdout)
    assert (len(found["advice"]), found["not_said"]) == (advice, not_said)
    shown = CliRunner().invoke(command, [*arguments, "--world-size", "1"]).output
    assert ("--vocabulary 50304" in shown) == bool(advice)
    assert all(name in shown for name in not_said)


@pytest.mark.parametrize(
    ("times", "told"), [(1, "94% of a step of 1 micro-batch;"), (16, "48% of a"), (32, ""), (64, "")]
)
def test_a_pipeline_that_mostly_waits_is_told_how_many_micro_batches_are_enough(times: int, told: str) -> None:
    """Of 2,048 H800 and one micro-batch an MFU of 0.6 % to 1.9 % was told without a word."""
    asked = ("--model", "llama-405b", "--gpu", "H100", "--nics", "8", "--nic-gbit", "400", "--tp", "8", "--pp", "16")
    fused = ("--kernels", "fused", "--loss", "fused")
    found = answer(
        *asked, "--strategy", "zero1", "--world-size", "1024", "--gradient-accumulation-steps", f"{times}", *fused
    )
    advice = [one for one in found["advice"] if "pipeline" in one]
    assert [one.endswith("(--gradient-accumulation-steps 64)") for one in advice] == [True] * bool(told)
    assert all(told in one for one in advice)


@pytest.mark.parametrize("times", [1, 2])
def test_what_stays_and_what_comes_and_goes_is_the_memory_that_is_told(times: int) -> None:
    """Gradients that are freed after a step stood in both rows: 179 GiB in all, of which 157 were told."""
    asked = ("--model", "llama-8b", "--world-size", "1", "--gpu", "H200", "--kernels", "plain", "--loss", "plain")
    asked = (*asked, "--no-compile", "--gradient-accumulation-steps", f"{times}")
    result = CliRunner().invoke(command, asked)
    (stays,) = re.findall(r"memory that stays  (.*) GiB", result.stdout)
    goes, with_gradients = re.findall(r"comes and goes     ([\d.]+) GiB( with gradients)?,", result.stdout)[0]
    parts = dict(one.split() for one in stays.split(", "))
    assert ("gradients" in parts, bool(with_gradients)) == (times > 1, times == 1)
    memory = json.loads(CliRunner().invoke(command, [*asked, "--json"]).stdout)["memory"]
    assert sum(map(float, parts.values())) + float(goes) == pytest.approx(memory["allocated"] / 2**30, abs=0.2)


@pytest.mark.parametrize(
    ("options", "is_cached"),
    [
        (("--model", "llama-405b", "--world-size", "512", "--node-type", "p5.48xlarge", "--strategy", "fsdp"), True),
        (("--model", "llama-8b", "--lora-rank", "16", "--world-size", "1", "--gpu", "4090"), False),
    ],
)
def test_what_may_fit_says_what_it_fits_by(options: tuple[str, ...], is_cached: bool) -> None:
    """Of 79 GiB 83 "with the leanest kernels and loss" may fit by what the allocator lets go of alone."""
    asked = (*options, "--activation-checkpointing")
    memory = answer(*asked, code=3)["memory"]
    text = CliRunner(env={"COLUMNS": "500"}).invoke(command, asked).stdout.partition("\n")[0]
    at_least = f"{(memory['least_needed'] or 0) / 2**30:.2f} GiB at the least"
    assert (f"it may fit: {at_least}; with what PyTorch's allocator holds besides " in text) is is_cached
    assert "with the leanest kernels and loss" in text
    assert (memory["least_peak"] > memory["device_bytes"]) is is_cached
    assert (memory["least_needed"] or memory["least_peak"]) <= memory["device_bytes"]


@pytest.mark.parametrize(("program", "is_open"), [((), True), (("--program", "transformers==4.57"), False)])
def test_where_it_hangs_on_experts_they_are_named(program: tuple[str, ...], is_open: bool) -> None:
    """29 to 179 GiB were told to be by kernels and loss, which change three of them."""
    asked = ("--model", "mixtral-8x7b", "--qlora", "--lora-rank", "16", "--gpu", "A100-80GB", "--world-size", "1")
    asked = (*asked, "--activation-checkpointing", *program)
    text = CliRunner(env={"COLUMNS": "500"}).invoke(command, asked).stdout.partition("\n")[0]
    by = (
        r"GiB with experts in few bits and the leanest kernels and loss, .* GiB with them in 16, as transformers from "
        r"5 on leaves them and the heaviest kernels and loss that may be meant"
    )
    assert bool(re.search(by, text)) is is_open
    assert ("say --program and its release, for the rest --kernels, --loss, " in text) is is_open
    assert answer(*asked, code=3 if is_open else 0)["memory"]["experts_left_by"] == (
        "transformers from 5 on" if is_open else ""
    )


def test_where_kernels_are_known_it_hangs_on_experts_alone() -> None:
    asked = ("--model", "mixtral-8x7b", "--qlora", "--lora-rank", "16", "--gpu", "A100-80GB", "--world-size", "1")
    asked = (*asked, "--activation-checkpointing", "--kernels", "fused", "--loss", "fused")
    text = CliRunner(env={"COLUMNS": "500"}).invoke(command, asked).stdout.partition("\n")[0]
    assert "with experts in few bits, " in text
    assert "kernels" not in text
    assert "say --program and its release, " in text


@pytest.mark.parametrize(("said", "is_range"), [((), True), (("--program", "torchtitan==0.2.1", "--compile"), False)])
def test_the_parts_of_memory_add_up_to_the_peak_that_they_are_of(said: tuple[str, ...], is_range: bool) -> None:
    """The most that may be meant had the formula of what is most likely, whose parts are told."""
    options = ("--model", "llama-8b", "--world-size", "16", "--strategy", "fsdp", "--node-type", "p5.48xlarge", *said)
    printed = CliRunner().invoke(command, (*options, "--full")).stdout
    sizes = {name: float(size) for name, size in re.findall(r"^  (\S.*?) {2,}([\d.]+) GiB ", printed, re.MULTILINE)}
    assert ("likely peak" in sizes) is is_range
    whole = sizes["likely peak" if is_range else "peak"]
    assert sizes["allocated"] + sizes["fragmentation"] + sizes["context"] == pytest.approx(whole, abs=0.02)
