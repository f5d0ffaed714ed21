"""Bounds of an estimate that names no program hold for each that there is; those that are out are told, with why."""

from dataclasses import replace

from raybench.documents.estimate import OtherPrograms
from raybench.errors import UsageError
from raybench.performance_model.estimate.estimate import estimate, with_meant
from raybench.performance_model.estimate.other_programs import OUTSIDE, other_programs
from raybench.performance_model.programs.program import Program
from raybench.performance_model.programs.table import PROGRAMS
from raybench.performance_model.request.request import EstimateRequest
from raybench.performance_model.request.taken import refused, with_program
from raybench.services.estimating.estimate import estimate as told
from raybench.services.estimating.options import EstimateOptions
from raybench.services.estimating.request import estimate_request
from tests.performance_model.step.test_order import TRAININGS

FSDP = EstimateOptions(model="llama-8b", world_size=64, strategy="fsdp", node_type="p5.48xlarge", accumulation=4)


def out_of(options: EstimateOptions) -> dict[str, OtherPrograms]:
    found = estimate(estimate_request(options))
    return {name: one for one in other_programs(found) for name in one.names}


def test_bounds_of_no_program_hold_for_each_that_is_not_told_to_be_out() -> None:
    """Of random trainings; transformers was up to 2.3 times as fast and 1.2 times as slow as what was told."""
    inside, outside = set(), set()
    for drawn in TRAININGS[::3]:
        options = replace(drawn, masked_attention=None)
        whole, out = estimate(estimate_request(options)).step_seconds, out_of(options)
        assert whole is not None
        for program in PROGRAMS:
            own = _bounds_by(program, options)
            if own is None:
                continue
            faster, slower, one = whole[0] / own[0], own[1] / whole[1], out.get(program.name)
            if one is None:
                assert max(faster, slower) <= OUTSIDE, (program.name, options)
                inside.add(program.name)
            else:
                assert one.most > OUTSIDE
                # what several facts do together, none of them alone; Megatron-LM's blocks launch more than plain ones
                assert one.why or one.most < OUTSIDE + 0.01, (program.name, options)
                assert one.faster >= faster * 0.999
                assert one.slower >= slower * 0.999
                outside.add(program.name)
    assert len(inside) > 0.9 * len(PROGRAMS)
    assert 0 < len(outside) < len(PROGRAMS)


def _bounds_by(program: Program, options: EstimateOptions) -> tuple[float, float] | None:
    """None where it cannot train so."""
    try:
        asked = estimate_request(replace(options, program=program.name))
    except UsageError:
        return None
    return None if refused(program, asked) else bounds_of_request(asked)


def bounds_of_request(request: EstimateRequest) -> tuple[float, float]:
    bounds = with_meant(estimate(with_program(request), alone=False)).step_seconds
    assert bounds is not None
    return bounds


def test_transformers_is_out_by_its_own_times_where_adapters_have_a_class_that_is_narrower() -> None:
    """Those of LoRA, whoever trains it; as it stands with its name, steps may be 1.18 times as slow as without."""
    adapters = EstimateOptions(model="llama-8b", world_size=8, gpu="H100", lora_rank=16, batch_size=4, kernels="plain",
                               activation_checkpointing=False)  # fmt: skip
    one = out_of(adapters)["trl"]
    assert "its own published step times" in one.why
    assert 1.05 < one.slower < 1.4
    whole = out_of(replace(adapters, lora_rank=0, strategy="ddp", model="gpt2", loss="transformers"))
    assert OUTSIDE < whole["trl"].slower < 1.1 < one.slower  # eager ones may be slower than adapters


def test_what_is_out_is_told_with_the_fact_that_does_it() -> None:
    whole = out_of(FSDP)
    assert whole["raybench"].why == ("the last micro-batch reduced",)  # whole gradients in fp32
    assert whole["raybench"].more_memory > 1.5
    assert whole["raybench"].faster < OUTSIDE  # beside H100's links
    assert "raybench" not in out_of(replace(FSDP, accumulation=1))
    slow = replace(FSDP, strategy="fsdp", gpu="A100", node_type=None, nics=1, nic_gbit=25.0, accumulation=1)
    assert out_of(slow)["torchtune"].why[0] == "gradients reduced in bf16"
    assert out_of(slow)["torchtune"].faster > 1.25
    assert "torchtune" not in out_of(replace(slow, reduce_dtype="bf16"))


def test_a_program_that_is_named_has_none_beside_it() -> None:
    report = told(FSDP).report
    assert [one for one in report.other_programs if "raybench" in one.names]
    assert told(replace(FSDP, program="torchtitan")).report.other_programs == ()
