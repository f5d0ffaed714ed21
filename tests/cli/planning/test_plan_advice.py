"""What a plan or an estimate advises can be given: it names no option that its command has not."""

import json
import re

import click
import pytest
from click.testing import CliRunner

from raybench.cli.estimate import command as estimate
from raybench.cli.planning.plan import command as plan
from tests.cli.planning.planned import planned

CASES = (
    ("tiny",),
    ("llama-8b", "--gpu", "H100", "--nodes", "4"),
    ("llama-8b", "--gpu", "3090", "--gpus-per-node", "8"),
    ("llama-8b", "--gpu", "V100", "--dtype", "bf16"),
    ("llama-8b", "--gpu", "H100", "--program", "transformers==4.35"),
    ("deepseek-v3", "--node-type", "p5.48xlarge", "--nodes", "16"),
    ("mistral-7b", "--gpu", "A10", "--gpus-per-node", "1", "--method", "qlora"),
)


def options_of(command: click.Command) -> set[str]:
    return {name for one in command.params for name in (*one.opts, *one.secondary_opts)}


def named(texts: list[str]) -> set[str]:
    """Options that are to be given; those of another command are behind its name."""
    return {name for text in texts for name in re.findall(r"(?<!estimate )--[a-z][a-z0-9-]*", text)}


@pytest.mark.parametrize("asked", CASES, ids=" ".join)
def test_a_plan_names_its_own_options(asked: tuple[str, ...]) -> None:
    """``--bandwidth`` and ``--nic-gb-per-s`` were to be given, which a plan did not take."""
    told = json.loads(CliRunner().invoke(plan, [*asked, "--json"]).stdout)
    found = named([told["reason"], *told["unknown"], *told["assumed"], *told["not_said"]])
    assert found
    assert found - options_of(plan) == set()


@pytest.mark.parametrize("asked", CASES[:3], ids=" ".join)
def test_an_estimate_names_its_own_options(asked: tuple[str, ...]) -> None:
    words = [word.replace("--nodes", "--world-size").replace("4", "32") for word in asked[1:]]
    told = json.loads(CliRunner().invoke(estimate, ["--model", asked[0], *words, "--json"]).stdout)
    found = named([*told["unknown"], *told["advice"], *told["not_said"]])
    assert found
    assert found - options_of(estimate) == set()


@pytest.mark.parametrize(
    ("option", "machine"),
    [("--nic-gb-per-s", ("--nodes", "4")), ("--node-gb-per-s", ("--gpus-per-node", "8"))],
)
def test_measured_links_are_taken_by_a_plan(option: str, machine: tuple[str, ...]) -> None:
    asked = ("llama-8b", "--gpu", "A100", *machine, option)
    slow, fast = (planned(*asked, rate)["ways"] for rate in ("2", "50"))
    way = next(way for way in fast if way["fits"] and way["strategy"] == "fsdp")
    same = next(one for one in slow if one["fits"] and one["strategy"] == "fsdp")
    assert same["tokens_per_second"][0] < way["tokens_per_second"][0]
