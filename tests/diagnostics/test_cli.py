import gzip
import json
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
