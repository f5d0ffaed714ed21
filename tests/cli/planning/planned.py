"""What ``raybench plan --json`` answers."""

import json
from typing import Any

from click.testing import CliRunner

from raybench.cli.planning.plan import command

P5 = ("--nodes", "4", "--node-type", "p5.48xlarge")


def planned(*arguments: str, code: int = 0) -> dict[str, Any]:
    result = CliRunner().invoke(command, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == code, result.output
    plan: dict[str, Any] = json.loads(result.stdout)
    return plan
