"""An estimate as a call. Its figures are in tests/cli/planning and tests/performance_model."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from raybench.cli.estimate import command
from raybench.errors import UsageError
from raybench.performance_model.request.request import least_setup
from raybench.performance_model.request.taken import with_program
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.estimates.estimate import estimate_tables
from raybench.services.estimating.estimate import estimate
from raybench.services.estimating.options import EstimateOptions
from raybench.services.estimating.request import estimate_request


def test_a_model_that_does_not_fit_is_a_problem() -> None:
    fits = estimate(EstimateOptions(world_size=64, strategy="fsdp", node_type="p5.48xlarge"))
    assert (fits.exit_code, fits.report.memory.fits, fits.report.gpu) == (0, True, "H100 SXM")
    assert estimate(EstimateOptions(model="llama-70b", gpu="H100")).exit_code == 1


@pytest.mark.parametrize(("length", "said"), [(131_072, False), (131_073, True)])
def test_a_sequence_longer_than_the_model_is_made_for_is_said(length: int, said: bool) -> None:
    report = estimate(EstimateOptions(gpu="h100", sequence_length=length, activation_checkpointing=True)).report
    assert any(f"stretched from 131,072 to {length:,} tokens" in one for one in report.advice) is said


@pytest.mark.parametrize(
    ("gpu", "given", "said"), [("a4000", None, True), ("a4000", "0.3:0.4", False), ("h100", None, False)]
)
def test_bounds_of_other_gpus_are_said_unless_they_are_given(gpu: str, given: str | None, said: bool) -> None:
    report = estimate(EstimateOptions(model="gpt2", gpu=gpu, efficiency=given)).report
    assert any("no published training on RTX A4000" in one for one in report.advice) is said


LLAMA = 8_030_261_248
ON_EIGHT: dict[str, Any] = {"gpu": "a100", "strategy": "fsdp"}
PACKED: dict[str, Any] = {**ON_EIGHT, "lora_rank": 16}
AWARE: dict[str, Any] = {**ON_EIGHT, "use_precision_aware_optimizer": True, "optimizer_dtype": "bf16"}


@pytest.mark.parametrize(
    ("options", "part", "size"),
    [
        ({**ON_EIGHT, "optimizer_dtype": "bf16"}, "optimizer_state", 4 * LLAMA / 8),
        ({**ON_EIGHT, "parameter_dtype": "bf16"}, "optimizer_state", 4 * LLAMA / 8),
        ({**ON_EIGHT, "parameter_dtype": "bf16", "optimizer_dtype": "fp32"}, "optimizer_state", 8 * LLAMA / 8),
        ({**ON_EIGHT, "optimizer": "momentum", "optimizer_dtype": "bf16"}, "optimizer_state", 2 * LLAMA / 8),
        ({**ON_EIGHT, "strategy": "zero1", "accumulation": 2}, "gradients", 2 * LLAMA),
        ({**ON_EIGHT, "strategy": "zero1"}, "gradients", 2 * LLAMA / 8),
        ({**ON_EIGHT, "strategy": "zero1", "gradient_dtype": "fp32"}, "gradients", 4 * LLAMA),
        ({**ON_EIGHT, "strategy": "distributed-optimizer"}, "gradients", 4 * LLAMA),  # Megatron-LM's name for it
        ({**ON_EIGHT, "strategy": "Distributed_Optimizer", "gradient_dtype": "bf16"}, "gradients", 2 * LLAMA),
        ({**ON_EIGHT, "strategy": "zero2", "gradient_dtype": "fp32"}, "gradients", 4 * LLAMA / 8),
        ({**ON_EIGHT, "strategy": "zero1", "program": "nemo"}, "optimizer_state", 12 * LLAMA / 8),
        (
            {**ON_EIGHT, "strategy": "zero1", "program": "nemo", "use_precision_aware_optimizer": True},
            "optimizer_state",
            10 * LLAMA / 8,  # of fp32 weights the 16 bits that those in bf16 lack
        ),
        ({**AWARE, "strategy": "zero1"}, "optimizer_state", 6 * LLAMA / 8),  # remainders, and moments in bf16
        ({**AWARE, "strategy": "zero1", "dtype": "fp8"}, "optimizer_state", 8 * LLAMA / 8),  # whole fp32 weights
        ({**AWARE, "strategy": "zero1", "dtype": "fp16"}, "optimizer_state", 8 * LLAMA / 8),
        ({**AWARE, "program": "nemo-automodel"}, "parameters", 2 * LLAMA / 8),
        ({**AWARE, "program": "nemo-automodel"}, "gradients", 2 * LLAMA / 8),
        ({**AWARE, "program": "nemo-automodel"}, "optimizer_state", 6 * LLAMA / 8),
        ({**PACKED, "base_dtype": "int8"}, "parameters", (LLAMA + (LLAMA - 6_979_321_856)) / 8),
        ({**PACKED}, "parameters", 2 * LLAMA / 8),
        ({**PACKED, "base_dtype": "bf16"}, "parameters", 2 * LLAMA / 8),
        ({**PACKED, "base_dtype": "fp32"}, "parameters", 4 * LLAMA / 8),
        ({**PACKED, "program": "verl"}, "parameters", 4 * LLAMA / 8),
        ({**PACKED, "program": "verl", "base_dtype": "bf16"}, "parameters", 2 * LLAMA / 8),
    ],
)
def test_what_is_stored_in_another_type_is_as_large_as_that(options: dict[str, Any], part: str, size: float) -> None:
    memory = estimate(EstimateOptions(**options)).report.memory
    assert getattr(memory, part) == pytest.approx(size, rel=0.03)  # adapters, scales and padding


def test_an_optimizer_that_is_aware_of_precision_has_whole_weights_beside_fp8() -> None:
    """DeepSeek-V3 of Megatron-Bridge in MXFP8 has it with moments in bf16, and was refused."""
    aware, plain = ({**AWARE, "strategy": "zero1", "dtype": name} for name in ("fp8", "bf16"))
    basis = estimate(EstimateOptions(**aware)).report.basis
    assert basis["fp32 weights"].startswith("whole beside fp8")
    assert "fp32 weights" not in estimate(EstimateOptions(**plain)).report.basis
    without = {**aware, "use_precision_aware_optimizer": None}
    reports = [estimate(EstimateOptions(**one)).report for one in (aware, without)]
    assert reports[0].memory.optimizer_state == reports[1].memory.optimizer_state


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "zero3", "gradient_dtype": "bf16"},
        {"strategy": "fsdp", "parameter_dtype": "bf16", "gradient_dtype": "bf16"},
        {"strategy": "ddp", "gradient_dtype": "fp32"},
    ],
)
def test_a_type_of_gradients_that_is_so_anyway_may_be_said(options: dict[str, Any]) -> None:
    said, unsaid = (estimate(EstimateOptions(**{**ON_EIGHT, **options, **more})).report
                    for more in ({}, {"gradient_dtype": None}))  # fmt: skip
    assert said.memory.gradients == unsaid.memory.gradients
    assert said.memory.peak == unsaid.memory.peak


NVIDIAS: dict[str, Any] = {"gpu": "h100", "memory": "80G", "program": "nemo", "strategy": "zero1"}


def test_what_nvidias_recipes_train_is_open_until_the_type_of_its_gradients_is_said() -> None:
    """Its recipes have fp32 and bf16 both; in fp32 Llama 405B on 512 H100 needs more than there is."""
    asked = EstimateOptions(**NVIDIAS, model="llama-3.1-405b", world_size=512, tensor_parallel=8, pipeline_parallel=8,
                            context_parallel=2, virtual_stages=8, accumulation=64, sequence_length=8192,
                            activation_checkpointing=False)  # fmt: skip
    report, said = (estimate(replace(asked, gradient_dtype=name)).report for name in (None, "fp32"))
    assert (report.memory.fits, said.memory.fits) == (None, False)
    assert "--gradient-dtype" in {*report.not_said} - {*said.not_said}
    assert "--use-precision-aware-optimizer" in report.not_said
    reason = estimate_tables(report, Asked()).reason
    assert "say --gradient-dtype, or --use-precision-aware-optimizer, or measure it" in reason


def test_what_swiglu_keeps_of_a_computation_in_fp8_is_open_until_it_is_said() -> None:
    """Llama 2 70B of MLPerf v5.0 on a B200, which held 168.8 GiB with it."""
    asked = EstimateOptions(model="meta-llama/Llama-2-70b-hf", gpu="b200", strategy="ddp", lora_rank=16,
                            lora_targets="q_proj,k_proj,v_proj,o_proj", base_dtype="fp8", dtype="fp8",
                            lora_dropout=True, program="nemo", sequence_length=8192,
                            activation_checkpointing=False)  # fmt: skip
    stores, keeps = (replace(asked, activation_func_fp8_input_store=is_so) for is_so in (True, False))
    reports = [estimate(one).report for one in (asked, keeps)]
    assert [one.memory.fits for one in reports] == [None, False]
    assert ["--activation-func-fp8-input-store" in one.not_said for one in reports] == [True, False]
    assert estimate(stores).report.memory.allocated / 2**30 == pytest.approx(168.8, rel=0.03)


@pytest.mark.parametrize(("batch", "more"), [(64, 0.0), (1, 4.0)])
def test_gradients_beside_ddps_buckets_are_there_from_the_backward_pass_on(batch: int, more: float) -> None:
    """Of many samples the peak is before; of one it is the update, with gradients and buckets."""
    asked: dict[str, Any] = {"model": "gpt2", "gpu": "h100", "batch_size": batch, "sequence_length": 64}
    views, copies = (estimate(EstimateOptions(**asked, bucket_view=is_so)).report.memory for is_so in (True, False))
    assert copies.allocated - views.allocated == pytest.approx(more * 124_439_808, rel=0.03, abs=1e6)


def test_activations_that_wait_on_the_cpu_leave_the_gpu_and_take_the_time_of_two_copies() -> None:
    said = EstimateOptions(**ON_EIGHT, kernels="plain", compile=False)  # fused ones move less
    here, there = (estimate(replace(said, offload_activations=is_so)).report for is_so in (False, True))
    assert there.memory.activations < 0.1 * here.memory.activations
    moved = 2 * (here.memory.activations - there.memory.activations) / (0.8 * 31.5e9)
    assert here.computation_seconds is not None
    assert there.computation_seconds is not None
    assert there.computation_seconds[0] == pytest.approx(moved, rel=0.1)  # PCIe is slower than the GPU
    assert there.computation_seconds[1] > 1.5 * here.computation_seconds[1] + moved  # by save_on_cpu, 2 to 4 times
    assert here.memory.optimizer_state == there.memory.optimizer_state


def test_a_base_in_8_bits_is_cast_and_in_4_unpacked() -> None:
    options: tuple[dict[str, Any], ...] = ({}, {"base_dtype": "fp8"}, {"qlora": True})
    plain, cast, unpacked = (
        estimate(EstimateOptions(**PACKED, **more, loss="fused", kernels="fused")).report for more in options
    )
    assert plain.memory.parameters > cast.memory.parameters > unpacked.memory.parameters
    assert (plain.mfu or (0, 0))[1] > (cast.mfu or (0, 0))[1] > (unpacked.mfu or (0, 0))[1]


def test_a_base_in_fp32_is_cast_where_it_is_whole_and_gathered_as_it_computes() -> None:
    """Each pass makes a copy of it; shards are cast before they are gathered, and DeepSpeed casts all of the model."""
    options = {**PACKED, "loss": "fused", "kernels": "fused", "compile": True}
    whole, shards = ({**options, "strategy": name} for name in ("ddp", "fsdp"))
    narrow, wide = (estimate(EstimateOptions(**whole, base_dtype=one)).report for one in ("bf16", "fp32"))
    assert wide.memory.parameters - narrow.memory.parameters == pytest.approx(2 * LLAMA, rel=0.01)
    assert wide.memory.buffers - narrow.memory.buffers == pytest.approx(2 * LLAMA, rel=0.07)  # but the token table
    more = [after - before for before, after in zip(narrow.step_seconds or (), wide.step_seconds or (), strict=True)]
    assert min(more) > 0.6 * 6 * LLAMA / 2.0e12  # bytes moved for each weight, of an A100's memory
    narrow, wide = (estimate(EstimateOptions(**shards, base_dtype=one)).report for one in ("bf16", "fp32"))
    assert wide.step_seconds == narrow.step_seconds
    assert wide.memory.buffers == narrow.memory.buffers


def test_adapters_in_fp32_that_nothing_casts_are_slow() -> None:
    """Of unsloth-lora-bench's vanilla rows: a third of the time at rank 32, at the rate of fp32 without TF32."""
    options: dict[str, Any] = {"model": "llama-8b", "gpu": "a100", "world_size": 1, "lora_rank": 32, "compile": False}
    cast, uncast = (estimate(EstimateOptions(**options, autocast=one)).report.step_seconds for one in (True, False))
    assert cast is not None
    assert uncast is not None
    assert all(1.15 < slow / fast < 1.5 for slow, fast in zip(uncast, cast, strict=True))


@pytest.mark.parametrize(("masked", "epoch", "counted"), [(False, 0.25, 1.0), (None, 0.25, 1.0), (True, 1.0, 0.25)])
def test_samples_shorter_than_the_sequence_are_packed_or_padded(
    masked: bool | None, epoch: float, counted: float
) -> None:
    options = EstimateOptions(**ON_EIGHT, price=20, epoch_samples=10**6, masked_attention=masked)
    whole, short = (estimate(replace(options, mean_tokens=size)).report for size in (None, 1024))
    assert whole.cost is not None
    assert short.cost is not None
    assert short.tokens_per_second == whole.tokens_per_second
    ratio = {name: getattr(short.cost, name)[0] / getattr(whole.cost, name)[0] for name in _OF_COST}
    assert ratio == pytest.approx({"per_epoch": epoch, "per_million_tokens": 1 / counted})
    told = short.counted_tokens_per_second
    assert told == (None if counted == 1 else tuple(counted * rate for rate in whole.tokens_per_second or ()))


_OF_COST = ("per_epoch", "per_million_tokens")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gradient_dtype": "bf16"}, "of zero1 and zero2; with ddp gradients are in fp32 here"),
        ({"gradient_dtype": "fp32", "strategy": "zero3"}, "with zero3 gradients are in bf16 here"),
        ({"gradient_dtype": "bf16", "strategy": "fsdp"}, "with fsdp gradients are in fp32 here"),
        ({"use_precision_aware_optimizer": True, "strategy": "zero2"}, "take zero1 or fsdp"),
        ({"use_precision_aware_optimizer": True, "strategy": "zero1", "dtype": "fp32"}, "take --dtype bf16"),
        ({"use_precision_aware_optimizer": True, "parameter_dtype": "bf16", "strategy": "fsdp"}, "fp32 weights"),
        ({"activation_func_fp8_input_store": True, "model": "gpt2"}, "of SwiGLU"),
        ({"optimizer": "sgd", "optimizer_dtype": "bf16"}, "no moments"),
        ({"optimizer": "adamw-8bit", "optimizer_dtype": "bf16"}, "8 bits"),
        ({"base_dtype": "int8"}, "--lora-rank"),
        ({"base_dtype": "int8", "qlora": True, "lora_rank": 8}, "give one of them"),
        ({"base_dtype": "fp32", "qlora": True, "lora_rank": 8}, "give one of them"),
        ({"base_dtype": "fp32", "lora_rank": 8, "strategy": "zero2"}, "DeepSpeed casts the whole model"),
        ({"base_dtype": "fp32", "lora_rank": 8, "autocast": False}, "give --dtype fp32"),
        ({"base_dtype": "bf16", "lora_rank": 8, "dtype": "fp32"}, "give --dtype bf16"),
        ({"mean_tokens": 4097}, "from 1 to the 4096"),
        ({"mean_tokens": 0}, "--mean-tokens is 0"),
    ],
)
def test_types_and_lengths_that_contradict_the_rest_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        estimate(EstimateOptions(**options))


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"vocabulary": 50304}, "gpt2 with vocabulary 50,304"),
        ({"layers": 6, "hidden": 512, "heads": 8}, "gpt2 with layers 6, hidden size 512, heads 8"),
        ({}, "gpt2"),
    ],
)
def test_a_preset_in_another_size_is_named_so(changes: dict[str, int], name: str) -> None:
    assert estimate(EstimateOptions(model="gpt2", gpu="h100", **changes)).report.model.name == name


def test_a_result_that_is_larger_than_any_run_s_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    with file.open("wb") as sparse:
        sparse.truncate(10**9)
    with pytest.raises(UsageError, match=r"result\.json: it has 954 MiB, and at most 512 are read"):
        estimate(EstimateOptions(gpu="h100", result_file=str(file)))
    file.write_bytes(b"{}")
    with pytest.raises(UsageError, match=r"is no raybench\.result"):
        estimate(EstimateOptions(gpu="h100", result_file=str(tmp_path)))


@pytest.mark.parametrize(("dtype", "tensor", "sharded"), [("bf16", 2, True), ("fp16", 2, False), ("bf16", 1, False)])
def test_deepspeed_s_bf16_optimizer_alone_shards_the_state_of_replicas_without_zero(
    dtype: str, tensor: int, sharded: bool
) -> None:
    request = estimate_request(
        EstimateOptions(gpu="h100", world_size=16, tensor_parallel=tensor, dtype=dtype, nics=8, nic_gbit=400)
    )
    lean = least_setup(request)
    assert (lean.strategy == "zero1") is sharded
    # which it keeps whole, in fp32; Megatron-LM's of fp16 stay in it; of plain DDP nobody asks
    assert lean.gradient_bytes == (4 if sharded else 2)


@pytest.mark.parametrize(
    ("dtype", "asked", "each"), [("bf16", None, 4), ("fp16", None, 2), ("fp16", "fp32", 4), ("bf16", "bf16", 2)]
)
def test_megatron_adds_bf16_gradients_up_in_fp32_and_fp16_ones_as_they_are(
    dtype: str, asked: str | None, each: int
) -> None:
    """arguments.py sets accumulate_allreduce_grads_in_fp32 with bf16 alone: a Qwen of FlagPerf takes 7 GiB less so."""
    options = EstimateOptions(gpu="h100", tensor_parallel=2, strategy="zero1", dtype=dtype, reduce_dtype=asked)
    assert estimate_request(options).setup.gradient_bytes == each


def test_another_size_of_a_model_with_a_table_of_positions_has_one_as_long_as_its_samples() -> None:
    sizes = {"layers": 32, "hidden": 4096, "heads": 32, "feedforward": 16384}
    model = estimate_request(EstimateOptions(model="gpt2-xl", gpu="h100", sequence_length=2048, **sizes)).model
    assert (model.positions, model.parameters) == (2048, 32 * (12 * 4096**2 + 13 * 4096) + (50257 + 2048 + 2) * 4096)
    for other in ({}, {"vocabulary": 50304}):  # of that size itself too, where the table is trained
        options = EstimateOptions(model="gpt2-xl", gpu="h100", sequence_length=2048, **other)
        assert estimate_request(options).model.positions == 2048
        with pytest.raises(UsageError, match="has a table of 1024 positions"):
            estimate_request(replace(options, lora_rank=8))


def test_an_estimate_that_cannot_be_is_refused() -> None:
    for wrong, said in ((EstimateOptions(world_size=0), "world"), (EstimateOptions(layers=-1), "--layers is -1")):
        with pytest.raises(UsageError, match=said):
            estimate(wrong)


def test_a_power_limit_costs_speed_where_that_is_known_and_is_refused_elsewhere() -> None:
    full, held = (estimate(EstimateOptions(gpu="h100", power_limit=watts)).report for watts in (None, 500))
    assert (held.mfu or (1, 1))[1] < (full.mfu or (0, 0))[1]
    for gpu, watts in (("a100", 300), ("h100", 0), ("h100", 10), ("h200", 199), ("h100", 701)):
        with pytest.raises(UsageError, match="--power-limit"):
            estimate(EstimateOptions(gpu=gpu, power_limit=watts))
    assert estimate(EstimateOptions(gpu="h200", power_limit=200)).report.step_seconds


def test_the_command_has_the_defaults_of_the_call() -> None:
    """An option that is given to one of them only would mean two things."""
    given = command.make_context("estimate", []).params
    del given["as_json"], given["full"]  # which say how it is printed
    assert EstimateOptions(**given) == EstimateOptions()


@pytest.mark.parametrize(("program", "told"), [(None, True), ("h2o-llmstudio", False)])
def test_whose_adam_deepspeed_has_stays_open_until_a_program_says_it(program: str | None, told: bool) -> None:
    """DeepSpeed's own is fused, PyTorch's has a list, whatever is said of kernels and loss."""
    asked = estimate_request(
        EstimateOptions(strategy="zero2", gpu="a100", kernels="plain", loss="plain", program=program)
    )
    assert least_setup(with_program(asked)).fused_optimizer is told
