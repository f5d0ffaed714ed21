import gzip
import json
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from raybench.cli.diagnose import command

CASES = Path(__file__).parent / "cases"
GOOD = str(CASES / "log-truncated" / "whole" / "input.log")
BAD = str(CASES / "duplicate-gpu" / "classic" / "input.log")
WARNING = str(CASES / "gdr-missing" / "ib_without_gdr" / "input.log")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((GOOD,), 0),
        ((BAD,), 1),
        ((WARNING,), 1),
        ((WARNING, "--fail-on", "critical"), 0),
        ((BAD, "--fail-on", "never"), 0),
        ((), 2),
        ((GOOD, "--format", "yaml"), 2),
    ],
)
def test_exit_codes(arguments: tuple[str, ...], code: int) -> None:
    assert run(*arguments).exit_code == code


def test_an_unreadable_path_names_itself() -> None:
    result = run("no-such-file")
    assert result.exit_code != 0
    assert "no-such-file" in str(result.exception)
    assert getattr(result.exception, "exit_code", None) == 2


def test_an_archive_that_is_cut_is_incomplete(tmp_path: Path) -> None:
    packed = gzip.compress(Path(GOOD).read_bytes() * 500, compresslevel=0)
    (tmp_path / "a.gz").write_bytes(packed[:-2000])
    assert run(str(tmp_path / "a.gz"), "--fail-on", "never").exit_code == 3


def test_json_goes_to_the_file_asked_for(tmp_path: Path) -> None:
    result = run(BAD, "--format", "json", "-o", str(tmp_path / "out.json"))
    assert result.output == ""
    assert json.loads((tmp_path / "out.json").read_text())["verdict"] == "critical"


def test_pages() -> None:
    assert "GPU and adapter are too far apart" in run("--explain", "gdr-distance").output
    assert "tcp-fallback" in run("--list-rules").output
    assert getattr(run("--explain", "nonsense").exception, "exit_code", None) == 2


def test_a_file_that_cannot_be_written_is_wrong_use(tmp_path: Path) -> None:
    result = run(GOOD, "-o", str(tmp_path / "missing" / "out.txt"))
    assert getattr(result.exception, "exit_code", None) == 2
    assert "cannot write" in str(result.exception)


def test_following_in_a_format_for_files_needs_one() -> None:
    result = run(GOOD, "--follow", "--format", "html")
    assert result.exit_code == 2
    assert "add -o FILE" in result.output


def wait_for(file: Path, text: str) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        content = file.read_text(encoding="utf-8") if file.exists() else ""
        if text in content:
            return content
        time.sleep(0.05)
    raise AssertionError(f"{file} never held {text}")


def test_following_rewrites_the_file_and_takes_dumps_that_appear(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out.md"
    logs.mkdir()
    (logs / "a.log").write_bytes(Path(BAD).read_bytes())
    command_line = [sys.executable, "-c", "from raybench.cli import main; main()", "diagnose", str(logs), "--follow"]
    with subprocess.Popen(
        [*command_line, "--format", "markdown", "-o", str(out)], stdout=subprocess.PIPE, text=True
    ) as following:
        try:
            assert "straggler" not in wait_for(out, "duplicate-gpu")
            for rank in range(2):
                entries = [
                    {
                        "process_group": ("0", "default_pg"),
                        "collective_seq_id": number,
                        "profiling_name": "nccl:all_reduce",
                    }
                    for number in range(3 + rank)
                ]
                (logs / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps({"entries": entries}))
            wait_for(out, "Rank 0 is behind")
        finally:
            following.send_signal(signal.SIGINT)
            output, _ = following.communicate(timeout=30)
    assert following.returncode == 1
    assert output.count("duplicate-gpu") == 1
    assert "straggler" in output
