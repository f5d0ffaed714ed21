"""The loss of a program: each has a name, and takes the memory that it does there."""

from typing import get_args

import click
import pytest

from raybench.cli.estimate import command as estimate
from raybench.performance_model.programs.program import LOSSES
from raybench.performance_model.setup.kernels import Loss
from tests.cli.programs.asked import told


def test_each_loss_is_one_of_the_option_or_in_words() -> None:
    """``fused-fp32`` and others were shown as the program has them, and are no values of ``--loss``."""
    option = next(one for one in estimate.params if one.name == "loss")
    assert isinstance(option.type, click.Choice)
    assert {*get_args(Loss)} == {*option.type.choices, *LOSSES}
    assert not {*option.type.choices} & {*LOSSES}
    asked = ("--world-size", "8", "--gpu", "H100", "--program")
    assert told(*asked, "megatron-lm")["basis"]["loss"].startswith("fused over fp32 logits, as Megatron-LM")
    assert "loss in 16 bits throughout" in told(*asked, "fms-fsdp", "--no-compile")["taken"]


def test_a_fused_loss_is_given_logits_that_transformers_has_cast_up() -> None:
    """A kernel in the place of PyTorch's cross entropy reads fp32: a TinyLlama trained so took more than was told."""
    asked = ("--world-size", "8", "--gpu", "H100", "--strategy", "ddp", "--kernels", "fused", "--loss", "fused")
    for program in ("transformers", "trl", "llama-factory"):
        found = told(*asked, "--program", program)
        assert found["basis"]["loss"].startswith("fused over fp32 logits, as ")
        assert found["memory"]["logits"] == pytest.approx(2 * told(*asked)["memory"]["logits"])
    assert "loss" not in told(*asked, "--program", "torchtitan")["basis"]


def test_a_plain_loss_of_megatron_is_its_own_in_place() -> None:
    """It has none of PyTorch's: without the fusion of its cross entropy six runs took 0.9 of what was told."""
    asked = ("--world-size", "8", "--gpu", "H100", "--strategy", "distributed-optimizer", "--kernels", "fused")
    found, said = (told(*asked, "--program", "megatron-lm", *more) for more in ((), ("--loss", "plain")))
    assert said["basis"]["loss"].startswith("fused over fp32 logits, as Megatron-LM")
    assert said["memory"]["logits"] == found["memory"]["logits"] < told(*asked, "--loss", "plain")["memory"]["logits"]
