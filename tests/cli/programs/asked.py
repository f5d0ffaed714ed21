"""What ``raybench estimate`` and ``raybench plan`` answer of a program, and a model that it trains."""

import json
from typing import Any

from click.testing import CliRunner

from raybench.cli.estimate import command as estimate
from raybench.cli.planning.plan import command as plan
from raybench.performance_model.programs.program import Program

ON_64 = ("--model", "llama-8b", "--world-size", "64", "--node-type", "p5.48xlarge", "--strategy", "fsdp")
PLAN = ("llama-8b", "--nodes", "2", "--node-type", "p5.48xlarge")


def told(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(estimate, [*arguments, "--json"], catch_exceptions=False)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def planned(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(plan, [*arguments, "--json"], catch_exceptions=False)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def model_of(program: Program) -> str:
    """One that it trains."""
    return "llama-8b" if program.families is None or not program.families.lack("llama") else "gpt2"
