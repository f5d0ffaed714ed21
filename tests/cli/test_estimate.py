"""``raybench estimate``: figures by hand, verdicts by exit code, nonsense refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from raybench.cli.estimate import command
from raybench.cli.planning.plan import command as plan_command
from raybench.cli.show import command as show
from raybench.errors import UsageError
from raybench.performance_model.estimate_report import FORMULAS
from raybench.performance_model.step.bounds import forward_share
from raybench.performance_model.training_setup import TrainingSetup
from tests.reports.sample import cluster, run_result, sweep


def answer(*options: str, code: int = 0) -> dict[str, Any]:
    result = CliRunner().invoke(command, [*options, "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def refusal(*options: str) -> str:
    result = CliRunner().invoke(command, options)
    if isinstance(result.exception, UsageError):
        return str(result.exception)
    assert result.exit_code == 2
    return result.output


FSDP = ("--model", "llama-8b", "--world-size", "64", "--strategy", "fsdp", "--node-type", "p5.48xlarge")


def test_an_estimate_has_every_figure() -> None:
    estimate = answer(*FSDP, "--no-compile", "--epoch-samples", "1000000")
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
    assert estimate["mfu"][1] < 0.65  # with fused kernels, which nobody rules out
    cost = estimate["cost"]
    assert cost["per_hour"] == pytest.approx(8 * 55.04)
    assert cost["per_epoch"][0] == pytest.approx(1000 * cost["per_1k_samples"][0])
    assert cost["per_million_tokens"][1] == pytest.approx(8 * 55.04 / 3600 * 1e6 / estimate["tokens_per_second"][0])


@pytest.mark.parametrize(
    ("options", "published", "code"),
    [
        (("--model", "llama-8b"), 2973, 3),  # tight, where kernels and loss may be any
        (("--model", "llama-8b", "--kernels", "fused", "--loss", "fused"), 2973, 0),
        (("--model", "llama-70b", "--activation-checkpointing"), 331, 0),
    ],
)
def test_what_64_a100_are_published_to_reach_is_within_the_estimate(
    options: tuple[str, ...], published: float, code: int
) -> None:
    """Tokens a second and GPU: torchtitan, docs/performance.md, Llama 3 with FSDP2."""
    shape = ("--world-size", "64", "--strategy", "fsdp", "--batch-size", "1", "--sequence-length", "8192")
    estimate = answer(*options, *shape, "--node-type", "p4de.24xlarge", code=code)
    low, high = estimate["tokens_per_second"]
    assert low < 64 * published < high
    assert high < (2.4 if code == 0 else 3.2) * low, (
        "or it would say little"
    )  # 3: it may fill the GPU, and wait for that
    assert "A100" in estimate["efficiency"]["source"]


def test_a_model_that_does_not_fit_ends_with_1() -> None:
    estimate = answer("--model", "llama-70b", "--gpu", "H100", code=1)
    assert estimate["memory"]["fits"] is False
    assert estimate["memory"]["largest_batch_size"] == 0
    assert answer("--model", "llama-70b", "--gpu", "H100", "--memory", "2000G")["memory"]["fits"] is True


def test_it_prints_what_show_prints_of_its_document_each_figure_with_its_formula(tmp_path: Path) -> None:
    options = (*FSDP, "--epoch-samples", "1000000")
    (tmp_path / "estimate.json").write_text(json.dumps(answer(*options)))
    printed = CliRunner().invoke(command, (*options, "--full")).stdout
    assert CliRunner().invoke(show, [str(tmp_path / "estimate.json"), "--full"]).stdout == printed
    assert [name for name, formula in FORMULAS.items() if formula not in printed] == []
    assert "computation " in printed
    assert "that come and go" in printed
    assert printed.splitlines()[0] == printed.splitlines()[-1]


def test_without_a_gpu_time_is_unknown_and_traffic_is_not() -> None:
    estimate = answer("--model", "gpt2", "--world-size", "8", "--node-gb-per-s", "10")
    assert estimate["step_seconds"] is None
    assert estimate["mfu"] is None
    assert estimate["memory"]["fits"] is None
    assert estimate["communication"]["message_bytes"] == 4 * 124_439_808
    assert estimate["communication"]["seconds"] == pytest.approx(4 * 124_439_808 * 1.75 / 10e9, rel=0.01)
    assert len(estimate["unknown"]) == 3


@pytest.mark.parametrize(
    ("gpu", "rates"), [("H100", "800 to 3200"), ("H800", "800 to 3200"), ("RTX 4090", "40 to 400")]
)
def test_without_what_joins_the_nodes_a_step_is_between_what_such_nodes_have(gpu: str, rates: str) -> None:
    shape = ("--model", "gpt2", "--world-size", "16", "--gpu", gpu)
    estimate = answer(*shape)
    assert estimate["communication"]["seconds"] is estimate["communication"]["exposed_seconds"] is None
    assert (
        f"the network between nodes; give --nic-gb-per-s or --node-type; the step is of {rates}"
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
        (("--world-size", "16", "--node-gb-per-s", "100"), "the network between nodes; give --nic-gb-per-s"),
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


def test_a_type_without_units_has_no_mfu() -> None:
    estimate = answer("--model", "gpt2", "--gpu", "V100", "--dtype", "bf16")
    assert estimate["mfu"] is None
    assert "V100 SXM2 32GB has no peak for bf16; give --dtype fp16" in estimate["unknown"][0]
    suited = answer("--model", "gpt2", "--gpu", "V100")  # by itself the type that the GPU has
    assert suited["mfu"] is not None
    assert suited["step_seconds"] == answer("--model", "gpt2", "--gpu", "V100", "--dtype", "fp16")["step_seconds"]


def test_fp8_makes_nothing_faster_on_a_gpu_without_it() -> None:
    estimate = answer("--model", "gpt2", "--gpu", "A100", "--dtype", "fp8")
    assert (estimate["step_seconds"], estimate["mfu"]) == (None, None)
    assert "has no peak for fp8; give --dtype bf16" in estimate["unknown"][0]


def test_an_optimizer_on_the_cpu_says_what_it_takes_with_one_thread_a_rank() -> None:
    """chenyaofo's gist: LLaMA-7B on 8 A800, a step of 15.3 s took 35.4 s with ZeRO-2's optimizer on the CPUs."""
    machine = ("--model", "llama-7b", "--gpu", "A100", "--world-size", "8", "--strategy", "zero2")
    basis = answer(*machine, "--cpu-offload", "optimizer")["basis"]
    assert "with one thread a rank, as torchrun starts it, 19 s: set OMP_NUM_THREADS" in basis["optimizer on the CPU"]
    assert "optimizer on the CPU" not in answer(*machine)["basis"]


def test_scores_that_are_stored_take_time() -> None:
    """nanoGPT's README: 250 ms for 12 x 1024 tokens on an A100 without compiler, of a time before FlashAttention."""
    asked = ("--model", "gpt2", "--gpu", "A100-SXM4-40GB", "--world-size", "1", "--batch-size", "12", "--no-compile")
    low, high = answer(*asked, "--no-flash-attention", code=0)["step_seconds"]
    assert low < 0.250 < high
    assert answer(*asked)["step_seconds"][1] < 0.65 * high


def test_what_fused_kernels_keep_is_between_two_figures() -> None:
    """NVIDIA runs it so on 64 H100, 1602 tokens/s each (Megatron-Bridge 25.11): what fits is not refused."""
    machine = ("--world-size", "64", "--node-type", "ND96isr_H100_v5")
    cut = "--strategy zero1 --tp 4 --pp 8 --vpp 5 --sequence-length 8192 --accumulation 64"
    asked = ("--model", "llama-70b", *machine, *f"{cut} --dtype fp8 --kernels fused --loss fused".split())
    memory = answer(*asked, code=3)["memory"]
    assert (memory["fits"], memory["least_peak"] < memory["device_bytes"] < memory["peak"]) == (None, True)
    sixteen = answer(*asked[:-5], "bf16", *asked[-4:], code=3)["memory"]  # no 8-bit inputs: too near to tell
    assert sixteen["least_peak"] > memory["least_peak"]
    narrow = answer(*asked, "--reduce-dtype", "bf16", code=3)["memory"]
    assert narrow["gradients"] * 2 == pytest.approx(memory["gradients"], abs=8)


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


def test_the_least_memory_is_never_more_than_the_most() -> None:
    memory = answer("--model", "gpt2", "--world-size", "16", "--tp", "2", "--node-type", "p5.48xlarge")["memory"]
    assert memory["least_peak"] <= memory["peak"]


def test_own_prices_replace_the_list(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("name,usd_per_node_hour,date,source\np5.48xlarge,20,2026-11-01,our contract\nbad,lots,,\n")
    cost = answer(*FSDP, "--prices", str(path))["cost"]
    assert cost["per_hour"] == 160
    assert "2026-11-01, our contract" in cost["source"]
    assert "no line 'p4d.24xlarge'" in refusal("--node-type", "p4d.24xlarge", "--prices", str(path))
    assert "cannot be read" in refusal(*FSDP, "--prices", str(tmp_path / "none.csv"))
    assert "needs --node-type" in refusal("--gpu", "H100", "--prices", str(path))


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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (FSDP, ("it fits", "tokens/s", "a million tokens", "--full")),
        (("--model", "llama-70b", "--gpu", "H100"), ("does not fit", "--world-size 32\n#   (62.", "unknown: cost")),
        (("--model", "gpt2", "--node-gb-per-s", "10"), ("unknown:", "communication")),
        ((*FSDP, "--tp", "2", "--pp", "2", "--strategy", "zero1", "--epoch-samples", "1000"), ("pipeline bubble",)),
    ],
)
def test_it_is_one_screen_with_the_verdict_first(options: tuple[str, ...], words: tuple[str, ...]) -> None:
    printed = CliRunner(env={"COLUMNS": "80"}).invoke(command, options).stdout
    lines = printed.splitlines()
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    assert not lines[0].startswith("# VERDICT") or lines[0] in lines[1:]
    assert [word for word in words if word not in printed] == []


def test_the_text_names_formulas_and_sources() -> None:
    result = CliRunner().invoke(command, (*FSDP, "--full"))
    assert result.exit_code == 0
    for words in (
        "nothing was measured",
        "6 (N - lookups)",
        "list price of p5.48xlarge on 2026",
        "it fits: 29.08 GiB to 45.45 GiB, a GPU has 79.11 GiB",
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
        (("--gpu", "H100", "--nics", "8"), "belong together"),
        (("--gpu", "H100", "--node-gb-per-s", "nan"), "must be from 1e-06"),
        (("--gpu", "H100", "--heads", "7"), "multiple of 7 heads"),
        (("--gpu", "H100", "--gradient-accumulation-steps", "0"), "--gradient-accumulation-steps is 0"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_with_what_to_give(options: tuple[str, ...], words: str) -> None:
    assert words in refusal(*options)


def test_a_bridge_that_nobody_mentioned_is_not_counted_on() -> None:
    card = answer("--gpu", "H100 PCIe", "--world-size", "8", "--model", "gpt2")["basis"]["links within a node"]
    assert card.startswith("80% of 63 GB/s, PCIe 5")
    assert "with a bridge give --node-gb-per-s" in card
    assert answer("--gpu", "H100", "--world-size", "8", "--model", "gpt2")["basis"]["links within a node"].startswith(
        "80% of 450"
    )


def test_recomputation_and_frozen_weights_move_theforward_share() -> None:
    """2 of 8 operations with recomputation, 2 of 4 with a frozen base: forward gathers hide behind less or more."""
    assert forward_share(TrainingSetup(batch_size=1, sequence_length=8)) == pytest.approx(1 / 3)
    assert forward_share(TrainingSetup(batch_size=1, sequence_length=8, checkpointing=True)) == 0.25
    assert forward_share(TrainingSetup(batch_size=1, sequence_length=8, lora_rank=8)) == 0.5


def test_the_update_of_8_bit_states_moves_their_bytes() -> None:
    """Per parameter: weight twice, gradient once, each state twice."""
    common = ("--gpu", "H100", "--world-size", "1", "--model", "gpt2", "--efficiency", "1")
    steps = {name: answer(*common, "--optimizer", name)["step_seconds"][0] for name in ("sgd", "adamw", "adamw-8bit")}
    each = 124_439_808 / 3.35e12
    assert steps["adamw"] - steps["sgd"] == pytest.approx(16 * each)
    assert steps["adamw-8bit"] - steps["sgd"] == pytest.approx(4 * (1 + 4 / 256) * each)


def test_accumulation_under_fsdp_reduces_each_micro_batch_unless_told() -> None:
    """All shards are reduced in each, as most people train; or whole gradients of 4 bytes are held until the last."""
    common = (*FSDP, "--accumulation", "4", "--activation-checkpointing")
    each, last, one = answer(*common), answer(*common, "--reduce-last"), answer(*FSDP, "--activation-checkpointing")
    parameters = last["model"]["parameters"]

    def reduced(estimate: dict[str, Any]) -> float:
        messages = estimate["communication"]["messages"]
        return sum(m["message_bytes"] * m["count"] for m in messages if m["operation"] == "reduce_scatter")

    assert reduced(each) == 4 * reduced(last) == 4 * reduced(one)
    assert last["memory"]["buffers"] - each["memory"]["buffers"] == pytest.approx(4 * parameters)
    assert each["memory"]["buffers"] == one["memory"]["buffers"]


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
    near = CliRunner().invoke(command, [*between[:-1], "7168", "--kernels", "plain", "--loss", "plain"])
    assert near.exit_code == 3
    assert "with what PyTorch's allocator holds besides" in " ".join(near.stdout.replace("#", " ").split())
    plain = CliRunner().invoke(command, [*between[:-1], "7680", "--kernels", "plain", "--loss", "plain"])
    assert plain.exit_code == 1
    assert "nearest that fits: --kernels fused --loss fused" in " ".join(plain.stdout.replace("#", " ").split())


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
