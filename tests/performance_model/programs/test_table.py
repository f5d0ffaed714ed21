"""The table of programs: each is data, and all of it can be used."""

from typing import Any

import pytest

from raybench.performance_model.programs.program import Fact, every_name
from raybench.performance_model.programs.table import PROGRAMS, program_named
from raybench.performance_model.request.taken import refused, with_program
from raybench.performance_model.setup.training_setup import TrainingSetup
from raybench.services.estimating.options import EstimateOptions
from raybench.services.estimating.request import estimate_request
from tests.cli.programs.asked import model_of


def test_names_are_of_one_program_each() -> None:
    names = every_name(PROGRAMS)
    assert len(names) == len(set(names))
    assert all(program_named(name).title for name in names)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.name)
def test_its_facts_hold_of_something_and_each_has_a_source(program: Any) -> None:
    fields = {*TrainingSetup.__dataclass_fields__, "reduces_each", "drops", "vocabulary_multiple"}  # these of the model
    assert all(fact.name in fields and fact.source for fact in (*program.planned, *program.facts))
    taken: set[str] = set()
    for strategy in program.strategies:
        options = EstimateOptions(strategy=strategy, gpu="h100", program=program.name, model=model_of(program))
        request = estimate_request(options)
        assert refused(program, request) is None
        taken |= {fact.name for fact in with_program(request).taken}
    assert taken


def test_a_fact_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no fact of kernel"):
        Fact(name="kernel", value="fused", source="a file")


def test_a_model_of_no_known_family_is_taken_by_any_program() -> None:
    """A module that is counted may be anything, and so may a program be changed for it."""
    for program in PROGRAMS:
        assert program.families is None or not program.families.lack("")
        assert program.families is None or bool(program.families.only) != bool(program.families.none_of)
