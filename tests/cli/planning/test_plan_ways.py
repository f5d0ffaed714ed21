"""The ways of ``raybench plan``: the best first, with room, each with its micro-batch; what is near where none fits."""

import json
import re
from typing import Any

import pytest
from click.testing import CliRunner

from raybench.cli.planning.plan import command
from raybench.errors import UsageError
from raybench.performance_model.layout import Layout
from raybench.performance_model.memory.rank import estimate_memory
from raybench.performance_model.models.presets import preset_named
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.performance_model.ways.to_train import ways_to_train
from raybench.services.estimating.options import EstimateOptions
from raybench.services.estimating.request import estimate_request
from tests.cli.planning.answered import answer
from tests.cli.planning.planned import P5, planned


def test_the_fastest_way_that_fits_with_room_is_first_and_its_batch_is_the_largest() -> None:
    plan = planned("llama-8b", *P5, "--samples-per-step", "1024")
    best, *others = plan["ways"]
    assert (best["fits"], plan["verdict"], plan["world_size"]) == (True, "ok", 32)
    middle = {way["strategy"]: middle_of(way) for way in plan["ways"][::-1] if way["fits"]}
    own = [middle[name] for name in ("fsdp", "fsdp-grad-op", "fsdp-hybrid")]
    assert middle_of(best) >= max(own) / 1.03
    assert middle_of(best) >= max(middle.values()) / (1.1 * 1.03)  # DeepSpeed's ways have to be faster by a tenth
    assert best["peak"] <= 0.9 * plan["device_bytes"]
    assert {way["strategy"] for way in others if way["fits"] is False} == {"ddp"}
    for way in plan["ways"]:
        replicas = 32 // (way["tensor_parallel"] * way["context_parallel"] * way["pipeline_parallel"])
        assert way["batch_size"] * way["accumulation"] * replicas == 1024
        if way["fits"]:
            assert way["peak"] <= plan["device_bytes"]
    larger = TrainingSetup(
        batch_size=2 * best["batch_size"],
        sequence_length=plan["sequence_length"],
        strategy=best["strategy"],
        checkpointing=best["activation_checkpointing"],
    )
    memory = estimate_memory(preset_named("llama-8b"), larger, Layout(world_size=32, ranks_per_node=8))
    assert memory.peak > 0.9 * plan["device_bytes"]


def middle_of(way: dict[str, Any]) -> float:
    """Tokens a second."""
    low, high = way["tokens_per_second"]
    return float((low * high) ** 0.5)


@pytest.mark.parametrize(
    ("model", "gpu", "nodes", "samples"),
    [
        ("llama-8b", "a100", 1, 64),
        ("llama-70b", "h100", 8, 64),
        ("mixtral-8x7b", "a100", 4, 128),
        ("llama-70b", "a40", 1, 8),
    ],
)
def test_ways_that_fit_are_the_same_where_no_others_are_asked_for(
    model: str, gpu: str, nodes: int, samples: int
) -> None:
    options = EstimateOptions(model=model, gpu=gpu, world_size=8 * nodes, nics=8, nic_gbit=200)
    every = ways_to_train(estimate_request(options), samples)
    fitting = ways_to_train(estimate_request(options), samples, fitting_only=True)
    assert fitting == tuple(way for way in every if way.fits)
    assert bool(fitting) is (gpu != "a40")


def test_where_no_speed_is_known_pytorch_s_own_ways_come_first() -> None:
    plan = planned("llama-8b", "--nodes", "4", "--memory", "80G")
    assert plan["ways"][0]["tokens_per_second"] is None
    assert plan["ways"][0]["strategy"].startswith("fsdp")
    assert plan["ways"][0]["command"]


def test_a_gpu_without_bf16_is_planned_in_fp16() -> None:
    plan = planned("gpt2", "--gpu", "V100")
    assert "--dtype fp16" in plan["ways"][0]["command"]
    assert "--fp16 True" in " ".join(plan["launch"])
    assert plan["ways"][0]["tokens_per_second"]


def test_a_model_that_is_not_known_may_be_given_as_its_config() -> None:
    with pytest.raises(
        UsageError,
        match=r"give the config\.json of a Hugging Face model.*; did you mean .*'qwen2\.5-32b'.* mixtral-8x7b,",
    ):
        CliRunner().invoke(command, ["qwen2.5-33b", *P5], catch_exceptions=False)


def test_what_is_as_fast_is_done_the_simplest_way() -> None:
    plan = planned("gpt2", *P5, "--samples-per-step", "65536")
    best = plan["ways"][0]
    assert best["strategy"] == "ddp"
    assert best["accumulation"] > 1
    assert "--reduce-each" not in best["command"]
    assert "sync_each_batch" not in " ".join(plan["launch"])


def test_a_model_of_70b_on_four_nodes_needs_shards_and_recomputation_or_is_cut() -> None:
    plan = planned("llama-70b", *P5)
    fitting = [way for way in plan["ways"] if way["fits"]]
    whole = [way for way in fitting if way["tensor_parallel"] * way["pipeline_parallel"] == 1]
    assert [(way["strategy"], way["activation_checkpointing"]) for way in whole] == [("fsdp", True)]
    assert "--activation-checkpointing" in whole[0]["command"]
    accumulated = whole[0]["accumulation"] > 1  # shards that add up whole gradients would not fit
    assert accumulated == ("--reduce-each" in whole[0]["command"]) == ("sync_each_batch" in " ".join(plan["launch"]))
    cut = [way for way in fitting if way not in whole]
    assert {way["tensor_parallel"] for way in cut} <= {4, 8}
    assert all(way["peak"] < 0.95 * plan["device_bytes"] for way in cut)
    # 1.1, or a little more where kernels may be as good as the others'; those that are no faster are not listed
    said = [float(way["why_not"].removesuffix("x speed")) for way in cut if way["why_not"].endswith("x speed")]
    assert fitting[0] in cut or max(said, default=1.0) < 1.2


@pytest.mark.parametrize(("length", "told"), [("8192", True), ("4096", False)])
def test_a_sequence_longer_than_the_model_s_is_said(length: str, told: bool) -> None:
    plan = planned("llama-2-7b", "--gpu", "H100", "--sequence-length", length)
    assert any("positions of" in line for line in plan["assumed"]) is told


def test_micro_batches_go_round_the_stages_of_an_interleaved_pipeline() -> None:
    """Megatron-LM refuses any other number."""
    plan = planned("mistralai/Mistral-Nemo-Base-2407", "--nodes", "16", *P5[2:], "--samples-per-step", "8")
    stages = [(way["virtual_stages"], way["accumulation"], way["pipeline_parallel"]) for way in plan["ways"]]
    assert all(chunks == 1 or times % ranks == 0 for chunks, times, ranks in stages)
    assert any(ranks > 1 for *_, ranks in stages)


def test_a_sequence_that_no_node_holds_is_cut_over_nodes() -> None:
    """A million tokens were told to fit nowhere; TP 8 with CP 2 holds them."""
    best = planned("llama-8b", *P5, "--sequence-length", "1000000")["ways"][0]
    assert best["fits"]
    assert best["tensor_parallel"] * best["context_parallel"] > 8  # ranks of a node
    shorter = planned("llama-8b", *P5, "--sequence-length", "65536")["ways"]
    assert max(way["tensor_parallel"] * way["context_parallel"] for way in shorter) <= 8


def test_fewer_samples_than_ranks_are_of_replicas_of_a_model_that_is_cut() -> None:
    """Llama 3.1 405B is trained with 512 samples a step on 1024 H100 (Megatron-Bridge): that was refused."""
    goal = ("--node-type", "p5.48xlarge", "--sequence-length", "8192", "--samples-per-step")
    for way in planned("llama-405b", "--nodes", "128", *goal, "512")["ways"]:
        replicas = 1024 // (way["tensor_parallel"] * way["context_parallel"] * way["pipeline_parallel"])
        assert way["batch_size"] * way["accumulation"] * replicas == 512
    none = planned("llama-405b", *P5, "--samples-per-step", "16", code=1)
    assert none["reason"].startswith("nothing fits: nearest that does: --nodes ")
    assert all(way["fits"] is False for way in none["ways"])


@pytest.mark.parametrize("nodes", ["64", *(pytest.param(one, marks=pytest.mark.long) for one in ("32", "128"))])
def test_the_batch_of_a_way_is_looked_for_with_no_more_accumulation_than_it_needs(nodes: str) -> None:
    """One sample a rank fits where nothing is accumulated, and was looked for as if it were: a traceback."""
    for way in planned("mixtral-8x7b", "--nodes", nodes, "--node-type", "p5.48xlarge")["ways"]:
        assert way["batch_size"] >= 1


def test_ranks_on_some_of_a_node_s_gpus_use_the_adapters_beside_them() -> None:
    one, two, eight = (planned("llama-8b", *P5, "--gpus-per-node", str(ranks))["ways"] for ranks in (2, 4, 8))
    plain = [[way for way in ways if not way["selective_checkpointing"]] for ways in (one, two, eight)]
    sent = [next(way for way in ways if way["strategy"] == "fsdp")["tokens_per_second"] for ways in plain]
    assert planned("llama-8b", *P5, "--gpu", "h100", "--gpus-per-node", "8")["ways"] == eight
    assert sent[0][0] < 0.6 * sent[1][0] < 0.36 * sent[2][0]


@pytest.mark.parametrize(
    ("arguments", "choices"),
    [
        (("llama-405b", *P5), 2),  # more nodes, or adapters
        (("mixtral-8x7b", "--node-type", "p5.48xlarge"), 3),  # Adam in 8 bits alone was told
        (("deepseek-v3", *P5, "--samples-per-step", "16"), 1),  # more nodes with as many more samples
        (("llama-8b", "--gpu", "H100", "--gpus-per-node", "1"), 3),
        (("llama-70b", "--gpu", "RTX4090", "--gpus-per-node", "1", "--method", "qlora"), 1),
        (("llama-70b", "--gpu", "RTX4090", "--gpus-per-node", "2", "--method", "qlora", "--sequence-length", "512"), 1),
    ],
)
def test_where_nothing_fits_the_nearest_that_does_is_named_and_fits_when_asked(
    arguments: tuple[str, ...], choices: int
) -> None:
    plan = planned(*arguments, code=1)
    said = plan["nearest"]
    assert len(said) == choices
    assert plan["reason"] == f"nothing fits: nearest that does: {'; or '.join(said)}"
    for nearest in said:
        words, _, size = nearest.partition(" (")
        again = planned(*arguments, *words.split())["ways"][0]
        assert again["fits"]
        assert size.endswith(f": {again['peak'] / 2**30:.0f} GiB)")


@pytest.mark.parametrize("method", ["lora", "qlora"])
def test_a_way_has_the_figures_that_estimate_has(method: str) -> None:
    from raybench.cli.estimate import command as estimating

    machine = ("--gpu", "H100", "--gpus-per-node", "1", "--sequence-length", "2048")
    way = planned("mistral-7b", *machine, "--method", method, "--samples-per-step", "1")["ways"][0]
    words = ["--model", "mistral-7b", *machine, "--world-size", "1", "--lora-rank", "16"]
    words += ["--no-masked-attention", "--no-compile"]  # as what plan prints has it
    words += ["--qlora"] if method == "qlora" else []
    told = json.loads(CliRunner().invoke(estimating, [*words, "--json"], catch_exceptions=False).stdout)
    for name in ("peak", "least_peak"):  # plan's gradients are there before a step, as other samples may have left them
        assert way[name] == pytest.approx(told["memory"][name], rel=0.01)
    (slow, fast), (slowest, fastest) = way["tokens_per_second"], told["tokens_per_second"]
    assert (
        0.8 * slow < slowest <= slow < fast <= fastest < 1.28 * fast
    )  # of other kernels as well, unless they are said


@pytest.mark.parametrize(
    ("model", "program", "said"),
    [
        ("llama-8b", "torchtitan", ("--compile",)),  # whose published step times are further from the fit than others'
        ("llama-70b", "megatron-lm", ()),
    ],
)
def test_a_way_that_one_program_starts_has_the_bounds_of_that_program(
    model: str, program: str, said: tuple[str, ...]
) -> None:
    """Of a way that torchtitan starts 248k tokens/s at least were told, and of torchtitan, named, 204k."""
    ways = [way for way in planned(model, *P5)["ways"] if way["fits"]]
    way = next(way for way in ways if program.partition("-")[0] in " ".join(way["launch"]).lower())
    kinds = ("tensor", "pipeline", "context")
    words = [f"--{kind}-parallel={way[f'{kind}_parallel']}" for kind in kinds]
    words += [f"--virtual-stages={way['virtual_stages']}"] if way["virtual_stages"] > 1 else []
    words += ["--activation-checkpointing"] if way["activation_checkpointing"] else []
    words += ["--selective-checkpointing"] if way["selective_checkpointing"] else []
    each = ("--batch-size", f"{way['batch_size']}", "--gradient-accumulation-steps", f"{way['accumulation']}")
    machine = ("--world-size", "32", *P5[2:], "--strategy", way["strategy"])
    told = answer("--model", model, *machine, *each, *words, "--program", program, *said)
    assert way["tokens_per_second"] == pytest.approx(told["tokens_per_second"], rel=0.04)


@pytest.mark.parametrize(
    ("asked", "has"),
    [
        (("llama-8b", *P5), False),  # as torchtitan, named, is planned
        (("llama-8b", *P5, "--sequence-length", "131072"), True),
        (("llama-70b", "--nodes", "8", "--node-type", "ND96isr_MI300X_v5"), False),  # which fits whole
    ],
)
def test_a_way_that_cuts_the_model_is_faster_than_its_own_program_without_a_cut(
    asked: tuple[str, ...], has: bool
) -> None:
    """TP 2 of 8 B parameters was told to be 1.12 times as fast: torchtitan's compiler is, without TP as well."""
    ways = planned(*asked)["ways"]
    cut = [way for way in ways if way["fits"] and way["tensor_parallel"] * way["context_parallel"] > 1]
    assert any("torchtitan" in way["launch"][-1] for way in cut) is has


@pytest.mark.parametrize(
    ("asked", "is_its"),
    [
        (("llama-8b", "--node-type", "p5.48xlarge", "--sequence-length", "8192"), True),
        (("llama-8b", *P5), False),  # PyTorch's own fits
        (("llama-8b", "--node-type", "p5.48xlarge", "--sequence-length", "8192", "--optimizer", "adamw-8bit"), False),
    ],
)
def test_full_shards_that_torchtitan_makes_fit_are_a_way(asked: tuple[str, ...], is_its: bool) -> None:
    """They may fit by PyTorch's own kernels; by torchtitan's they do, and CP 2 of 8 B parameters came first."""
    ways = planned(*asked)["ways"]
    kept = [
        way
        for way in ways
        if way["strategy"] == "fsdp" and not way["activation_checkpointing"] and not way["selective_checkpointing"]
    ]
    plain = [way for way in kept if way["tensor_parallel"] * way["context_parallel"] == 1]
    assert len(plain) == 1
    assert ("torchtitan" in " ".join(plain[0]["launch"])) is is_its
    if is_its:
        assert plain[0]["fits"]
        assert not plain[0]["command"]
        assert "--compile.enable activation-checkpoint:none" in plain[0]["launch"][1]
        assert ways[0] == plain[0]
        named = planned(*asked, "--program", "torchtitan==0.3", "--compile")["ways"]  # of which the command is
        assert plain[0]["tokens_per_second"] == pytest.approx(named[0]["tokens_per_second"], rel=0.04)
        assert plain[0]["peak"] == pytest.approx(named[0]["peak"], rel=0.01)


def test_raybench_is_planned_as_its_command_has_it() -> None:
    """Of its command, with --reduce-each, the memory of whole gradients was told: fsdp was 84 of 79 GiB."""
    plan = planned("llama-8b", "--nodes", "2", "--node-type", "p5.48xlarge", "--program", "raybench")
    sharded = [way for way in plan["ways"] if way["strategy"] != "ddp" and way["accumulation"] > 1 and way["fits"]]
    assert any(not way["activation_checkpointing"] for way in sharded)
    for way in sharded:
        assert "--reduce-each" in way["command"]
        kept = ("--activation-checkpointing",) if way["activation_checkpointing"] else ()
        each = ("--batch-size", f"{way['batch_size']}", "--gradient-accumulation-steps", f"{way['accumulation']}")
        asked = ("--world-size", "16", "--node-type", "p5.48xlarge", "--strategy", way["strategy"], *each, *kept)
        told = answer("--model", "llama-8b", *asked, "--program", "raybench", "--reduce-each")
        assert way["peak"] == pytest.approx(told["memory"]["peak"], rel=0.01)


def test_without_the_memory_of_the_gpu_nothing_is_said_to_fit() -> None:
    result = CliRunner().invoke(command, ["llama-8b"])
    assert result.exit_code == 3
    assert "tried too: " in result.stdout
    assert "fits too" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "known"),
    [
        (("Qwen/Qwen3-32B",), True),  # torchtitan has it
        (("Qwen/Qwen2.5-32B",), False),  # and that not
        (("Qwen/Qwen3-32B", "--optimizer", "adamw-8bit"), False),
        (("Qwen/Qwen3-32B", "--no-compile"), True),
        (("llama-8b", "--sequence-length", "8192"), True),  # of which torchtitan trains the best way, too
    ],
)
def test_activations_are_computed_again_in_part_where_the_program_has_it(
    arguments: tuple[str, ...], known: bool
) -> None:
    plan = planned(*arguments, *P5)
    ways = plan["ways"]
    found = [way for way in ways if way["selective_checkpointing"]]
    assert not any("packed" in one for one in plan["assumed"])
    assert ({way["strategy"] for way in found} == {"fsdp"}) is known
    assert not any(way["command"] or way["activation_checkpointing"] for way in found)
    assert all("activation-checkpoint:selective" in way["launch"][1] for way in found if way["fits"])
    if known:  # between the two, in memory and in time
        sharded = [way for way in ways if way["strategy"] == "fsdp" and way not in found]
        whole = [way for way in sharded if way["tensor_parallel"] * way["context_parallel"] == 1]
        kept, again = sorted(whole, key=lambda way: way["activation_checkpointing"])
        assert found[0]["peak"] < kept["least_peak"]
        assert middle_of(again) < middle_of(found[0])


def test_what_may_fit_is_told_with_the_least_that_it_can_need() -> None:
    """The largest micro-batch that may fit is less likely to than one sample: 30 of 15 GiB where 19 are the most."""
    plan = planned("llama-8b", "--method", "qlora", "--gpu", "T4", "--gpus-per-node", "1", code=3)
    assert [way["batch_size"] for way in plan["ways"] if way["fits"] is None] == [1]


def test_nothing_is_told_to_fit_a_memory_that_is_not_known() -> None:
    """Each way had the samples of a whole step in one micro-batch, 1,354 GiB of DDP, and ``fits`` was true."""
    ways = planned("llama-8b", code=3)["ways"]
    assert {(way["fits"], way["batch_size"]) for way in ways} == {(None, 1)}


@pytest.mark.parametrize(
    ("model", "options", "code"),
    [
        ("deepseek-v2-lite", ("--gpu", "V100", "--gpus-per-node", "4", "--method", "qlora"), 0),
        ("gpt2", ("--gpu", "RTX 2080 Ti", "--method", "lora", "--samples-per-step", "1024"), 0),
        ("phi-4", ("--gpu", "4090", "--nodes", "5", "--dtype", "tf32", "--loss", "chunked", "--method", "lora"), 3),
    ],
)
def test_no_way_fits_whose_most_is_more_than_the_gpu_has(model: str, options: tuple[str, ...], code: int) -> None:
    """Of FSDP in a form that nobody says one was searched for: 12 GiB were told to fit 11."""
    plan = planned(model, *options, code=code)
    assert all(way["peak"] <= plan["device_bytes"] for way in plan["ways"] if way["fits"])
    assert any(way["fits"] for way in plan["ways"]) is (code == 0)


def test_what_is_said_is_not_told_to_decide_whether_it_fits() -> None:
    asked = ("phi-4", "--gpu", "4090", "--nodes", "5", "--dtype", "tf32", "--method", "lora", "--loss", "chunked")
    said = planned(*asked, "--kernels", "plain", "--sequence-length", "5000", code=3)["reason"]
    assert "kernels and loss" not in said
    assert "too near to tell" in said


@pytest.mark.parametrize(
    ("asked", "choices"),
    [
        (("llama-8b", "--lora-rank", "16", "--gpu", "4090", "--gpus-per-node", "1"), 1),  # by fused kernels and loss
        (("llama-70b", "--qlora", "--gpu", "a100-40gb", "--gpus-per-node", "2", "--sequence-length", "3072"), 2),
        (("mixtral-8x7b", "--qlora", "--gpu", "A100-80GB", "--gpus-per-node", "1"), 1),
    ],
)
def test_what_may_fit_says_what_fits_in_any_case(asked: tuple[str, ...], choices: int) -> None:
    """As an estimate does; of a plan it was left open what to do."""
    plan = planned(*asked, code=3)
    named = plan["nearest"]
    assert len(named) == choices
    assert plan["reason"].endswith(f"; fits in any case: {'; or '.join(named)}")
    for nearest in named:
        words, _, size = nearest.partition(" (")
        again = planned(*asked, *words.split())["ways"][0]
        assert again["fits"]
        assert size.endswith(f": {again['peak'] / 2**30:.0f} GiB)")
    screen = CliRunner(env={"COLUMNS": "80"}).invoke(command, list(asked)).stdout
    assert f"# fits in any case: {named[0].split(' (')[0]}" in screen


def test_what_fits_or_misses_a_goal_names_nothing_else() -> None:
    asked = ("llama-8b", "--gpu", "H100", "--tokens", "15B")
    plan = planned(*asked)
    assert "in any case" not in plan["reason"]
    assert plan["nearest"] == []
    assert "in any case" not in planned(*asked, "--deadline", "2d", code=3)["reason"]
    assert "in any case" not in planned("llama-8b", code=3)["reason"]  # on a GPU that nobody says


@pytest.mark.parametrize("gpu", ["GB200", "GB300"])
def test_a_rack_is_planned_without_a_word_of_its_nics(gpu: str) -> None:
    """Ways that cut the model were bounded by NICs between trays of a rack, which NVLink joins: the plan refused."""
    plan = planned("llama-8b", "--nodes", "2", "--gpu", gpu, "--gpus-per-node", "4")
    assert plan["ways"][0]["fits"]
    assert plan["ways"][0]["tokens_per_second"]


@pytest.mark.parametrize(
    ("said", "is_named"),
    [((), True), (("--parameter-dtype", "fp32"), False), (("--optimizer", "momentum"), False)],
)
def test_weights_without_fp32_copies_are_named_before_more_gpus(said: tuple[str, ...], is_named: bool) -> None:
    """Many tune 7B whole on one GPU so; a plan named a second GPU and LoRA alone."""
    asked = ("mistral-7b", "--gpu", "A100-80GB", "--gpus-per-node", "1", *said)
    reason = planned(*asked, code=1)["reason"]
    words = "nearest that does: --optimizer adamw-8bit --parameter-dtype bf16 (ddp: "
    assert (words in reason) is is_named
    assert "--gpus-per-node 2 (" in reason


def test_more_than_a_node_s_gpus_are_in_full_nodes() -> None:
    """Sixteen nodes of one GPU each were told."""
    asked = ("llama-70b", "--gpu", "H100", "--gpus-per-node", "1")
    assert "--gpus-per-node 8 --nodes 2 (" in planned(*asked, code=1)["reason"]
    asked = ("llama-405b", "--gpu", "H100", "--gpus-per-node", "4", "--nodes", "2")  # nodes that somebody has
    assert re.search(r"does: --nodes \d+ \(", planned(*asked, code=1)["reason"])


@pytest.mark.parametrize(
    ("asked", "is_cached"),
    [
        (
            (
                "llama-70b",
                "--method",
                "qlora",
                "--gpu",
                "a100-40gb",
                "--gpus-per-node",
                "2",
                "--sequence-length",
                "3072",
            ),
            True,
        ),
        (("llama-8b", "--method", "lora", "--gpu", "4090", "--gpus-per-node", "1"), False),
    ],
)
def test_what_fits_by_what_the_allocator_lets_go_of_is_told_so(asked: tuple[str, ...], is_cached: bool) -> None:
    """Of 39 GiB 42 were told to be 40 "with fused kernels and loss", which is no less than there is."""
    plan = planned(*asked, code=3)
    best, device = plan["ways"][0], plan["device_bytes"]
    assert best["fits"] is None
    assert (best["least_peak"] > device) is is_cached
    if is_cached:
        assert best["least_needed"] <= device
        assert f" GiB ({best['least_needed'] / 2**30:.0f} without the allocator's cache)" in plan["reason"]
        assert plan["reason"].startswith("may fit, too near to tell: ")
    else:
        assert best["least_needed"] is None
        assert f" GiB ({best['least_peak'] / 2**30:.0f} at least)" in plan["reason"]
        assert plan["reason"].startswith("may fit, with the leanest kernels and loss: ")


@pytest.mark.parametrize(
    ("memory", "by_what"),
    [("26G", "too near to tell: "), ("24G", "with the leanest kernels and loss: ")],
)
def test_what_is_nearer_than_estimates_are_exact_hangs_on_no_kernels(memory: str, by_what: str) -> None:
    """The heaviest, of 25.7 GiB, is within 26: it was told to hang on the leanest."""
    asked = ("llama-8b", "--method", "lora", "--gpus-per-node", "1", "--samples-per-step", "1", "--memory", memory)
    plan = planned(*asked, code=3)
    assert (plan["ways"][0]["peak"] <= plan["device_bytes"]) is (memory == "26G")
    assert plan["reason"].startswith(f"may fit, {by_what}")


def test_a_verdict_has_millions_in_short() -> None:
    """46,050,333 USD were cut to 46,050,33..."""
    asked = ("llama-70b", "--nodes", "64", "--node-type", "p5.48xlarge")
    reason = planned(*asked, "--tokens", "15T")["reason"]
    assert re.search(r", \d\d\.\dM to \d\d\.\dM USD$", reason)
    assert re.search(r", \d{3},\d{3} to \d{3},\d{3} USD$", planned(*asked, "--tokens", "200B")["reason"])
