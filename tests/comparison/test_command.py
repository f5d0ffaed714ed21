"""The command: exit codes, formats, and what contradicts."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from raybench.cli.comparing.compare import command
from raybench.errors import UsageError
from tests.comparison.recorded import FULL, SLOWER

RANKS = {"0": {"kernel": "6.18"}, "1": {"kernel": "6.18"}}


def written(folder: Path, name: str, samples: list[float]) -> str:
    """A result of torchrun over the shaped link."""
    point = {
        "message_bytes": 2**20,
        "element_count": 2**18,
        "bus_factor": 1.0,
        "samples_seconds": samples,
        "block_iterations": [[8] * 5],
        "rank_seconds": [0.09, 0.09],
        "verified": True,
        "wrong_elements": 0,
    }
    benchmark = {"name": "all_reduce", "kind": "collective", "status": "complete", "parameters": {}, "points": [point]}
    content = {"world_size": 2, "backend": "gloo", "schema": "raybench.standalone/1", "status": "complete"}
    path = folder / f"{name}.json"
    path.write_text(json.dumps({**content, "ranks": RANKS, "benchmarks": [benchmark]}), encoding="utf-8")
    return str(path)


def called(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def test_the_verdict_stands_first_and_the_gate_is_the_exit_code(tmp_path: Path) -> None:
    before, same, slower = (
        written(tmp_path, name, run) for name, run in (("a", FULL[9]), ("b", FULL[10]), ("c", SLOWER[7]))
    )
    shown = called(before, same)
    assert shown.exit_code == 0
    assert shown.output.startswith("# VERDICT: OK: no difference in 1 figure")
    assert len(shown.output.splitlines()) < 24
    worse = called(before, slower, "--gate", "5%")
    assert worse.exit_code == 1
    assert "1.05" in worse.output
    assert called(before, slower, "--gate", "1.0%", "--format", "csv").exit_code == 1
    assert called(before, same, "--gate", "1%").exit_code == 3


def test_json_is_the_document_and_a_file_is_written(tmp_path: Path) -> None:
    before, slower = written(tmp_path, "a", FULL[9]), written(tmp_path, "b", SLOWER[7])
    content = json.loads(called(before, slower, "--json").output)
    assert (content["schema"], content["verdict"]) == ("raybench.comparison/1", "warning")
    table = tmp_path / "table.md"
    assert called(before, slower, "--format", "markdown", "-o", str(table)).exit_code == 0
    assert "slower" in table.read_text(encoding="utf-8")


def test_invalid_usage_is_said_to_be(tmp_path: Path) -> None:
    before = written(tmp_path, "a", FULL[0])
    assert called(before, before, "-o", str(tmp_path / "x")).exit_code == 2
    assert called(before, before, "--json", "--format", "csv").exit_code == 2
    for arguments in ([before], [before, str(tmp_path / "nowhere")], [before, before, "--gate", "many"]):
        answer = called(*arguments)
        assert isinstance(answer.exception, UsageError), arguments
    with pytest.raises(UsageError, match="two results"):
        CliRunner().invoke(command, [before], catch_exceptions=False)


@pytest.mark.parametrize("arguments", [("",), ("A", ""), (" ", "A")])
def test_a_name_that_is_empty_is_not_this_folder(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    before = written(tmp_path, "a", FULL[0])
    answer = called(*(before if one == "A" else one for one in arguments))
    assert (answer.exit_code, "it is empty" in answer.output) == (2, True)


def test_a_pipe_that_nobody_writes_to_does_not_hang(tmp_path: Path) -> None:
    before, pipe = written(tmp_path, "a", FULL[0]), tmp_path / "pipe"
    os.mkfifo(pipe)
    for arguments in ((before, str(pipe)), (str(pipe), before)):
        assert "is a pipe" in str(called(*arguments).exception)
    with subprocess.Popen(["/bin/cat", before], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert "is a pipe" not in str(called(f"/dev/fd/{other.stdout.fileno()}", before).exception)
