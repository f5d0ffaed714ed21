"""What ``raybench estimate --json`` answers, or refuses."""

import json
from typing import Any

from click.testing import CliRunner

from raybench.cli.estimate import command
from raybench.errors import UsageError

FSDP = ("--model", "llama-8b", "--world-size", "64", "--strategy", "fsdp", "--node-type", "p5.48xlarge")


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
