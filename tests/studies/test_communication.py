"""What sends less is recommended where it is faster for certain, with its loss beside it."""

import random
from typing import Any

import pytest

from raybench.documents.price import Price
from raybench.documents.study.plan import Study, Trial
from raybench.services.study_variants import variants_of
from raybench.studies.result import result_of
from raybench.studies.runner import is_of_nccl
from tests.studies.sample import outcomes_of, run_result, training_point


def answered(seconds: dict[str, float], *, noise: float = 0.004, loss: float = 4.5, repeats: int = 5) -> Any:
    plan = Study(
        kind="communication",
        workload=("train",),
        variants=tuple(variants_of("communication", {"comm_hooks": ",".join(seconds)})),
        repeats=repeats,
        seed=2,
    )

    def trained(trial: Trial) -> dict[str, Any]:
        source = random.Random(trial.number)
        last = 4.5 if trial.variant == "none" else loss
        point = training_point(
            seconds[trial.variant] * source.lognormvariate(0, noise),
            loss={"first": 5.0, "last": last, "steps": [5.0, last]},
        )
        return run_result([point])

    price = Price(per_node_hour=10.0, source="given")
    return result_of("communication-1", plan, outcomes_of(plan, trained), price=price)


def test_a_hook_that_is_faster_is_recommended_with_its_loss_and_what_it_saves() -> None:
    study = answered({"none": 0.1, "fp16": 0.08}, loss=4.59)
    answer = study.answer
    assert (answer.recommended, answer.certain, study.conclusion.verdict) == ("fp16", True, "ok")
    assert "fp16 is faster: it reaches 1.24 of the throughput of none (95 % interval 1.2" in answer.why
    assert "last loss 4.5900 against 4.5000 (+2.00%)" in answer.why
    assert "USD instead of" in answer.why
    assert "of none (20% less)" in answer.why
    assert any("not where a long training would end" in remark for remark in study.remarks)


@pytest.mark.parametrize(
    ("seconds", "noise", "certain", "said"),
    [
        ({"none": 0.1, "fp16": 0.09}, 0.2, False, "fp16 shows no clear difference"),  # less than repeats differ by
        (
            {"none": 0.1, "fp16": 0.099},
            0.001,
            True,
            "fp16 gains less than 3%: it reaches 1.01 of",
        ),  # not worth what it rounds
        ({"none": 0.1, "powersgd": 0.2}, 0.004, True, "powersgd is slower: it reaches 0.50 of"),
    ],
)
def test_what_is_not_faster_for_certain_is_not_recommended(
    seconds: dict[str, float], noise: float, certain: bool, said: str
) -> None:
    answer = answered(seconds, noise=noise).answer
    assert (answer.recommended, answer.certain) == ("none", certain)
    assert said in answer.why
    assert "instead of" not in answer.why


def test_one_repeat_decides_nothing() -> None:
    answer = answered({"none": 0.1, "fp16": 0.05}, repeats=1).answer
    assert (answer.recommended, answer.certain) == ("none", False)


@pytest.mark.parametrize(
    ("kind", "options", "of_nccl"),
    [
        ("communication", {"algorithms": "ring,tree"}, [True, True]),
        ("communication", {"buffer_sizes": "4M,8M"}, [True, True]),
        ("communication", {"comm_hooks": "none,fp16"}, [False, False]),
        ("network", {"networks": "tcp,rdma"}, [False, True]),
    ],
)
def test_gloo_is_advised_only_where_it_would_do(kind: Any, options: dict[str, str], of_nccl: list[bool]) -> None:
    assert [is_of_nccl(one) for one in variants_of(kind, options)] == of_nccl
