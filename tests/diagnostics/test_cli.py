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


QUIET = "NCCL version 2.25.1+cuda12.4\n"
NO_ADAPTER = "n1:7:7 [0] NCCL INFO NET/IB : No device found.\n"
SOCKET = "n1:7:7 [0] NCCL INFO Using network Socket\n"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("", 2, "nothing to judge: The input is empty"),
        ("\n\n\n", 2, "NCCL_DEBUG=INFO"),
        ("epoch 1 loss 0.3\nepoch 2 loss 0.2\n", 2, "holds no line of NCCL"),
        ("\x89PNG\r\n\x1a\n" + "\x00" * 500, 2, "NCCL_DEBUG=INFO"),
        ("\x07aCCLf\x01\nCCLx\n", 2, "holds no line of NCCL"),  # three letters in noise
        (("\x07aCCLf\x01" + "-" * 500 + "\n") * 3000, 2, "holds no line of NCCL"),  # read by hyperscan, where it is
        (QUIET, 3, "does not say which network"),
        (SOCKET + NO_ADAPTER, 3, "? nodes"),
        (SOCKET + NO_ADAPTER + "n1:7:7 [0] NCCL INFO Channel 00/02 :    0   1\n", 3, "2 ranks on ? nodes"),
        (NO_ADAPTER.replace("n1:7:7 [0] NCCL INFO ", "") + "Using network Socket\n", 3, "cannot tell"),
    ],
)
def test_what_shows_nothing_is_never_fine(tmp_path: Path, text: str, code: int, said: str) -> None:
    (tmp_path / "a.log").write_text(text)
    result = run(str(tmp_path / "a.log"))
    assert getattr(result.exception, "exit_code", result.exit_code) == code
    shown = result.output + str(result.exception or "")
    assert said in shown
    assert "UNKNOWN" in result.output
    assert "single node" not in shown
    assert "one node" not in shown.replace("On one node", "")


def test_an_archive_that_is_cut_is_incomplete(tmp_path: Path) -> None:
    packed = gzip.compress(Path(GOOD).read_bytes() * 500, compresslevel=0)
    (tmp_path / "a.gz").write_bytes(packed[:-2000])
    assert run(str(tmp_path / "a.gz"), "--fail-on", "never").exit_code == 3


def test_json_goes_to_the_file_asked_for(tmp_path: Path) -> None:
    result = run(BAD, "--format", "json", "-o", str(tmp_path / "out.json"))
    assert result.output == ""
    assert json.loads((tmp_path / "out.json").read_text())["verdict"] == "critical"


def test_pages() -> None:
    assert "GPU and NIC are too far apart" in run("--explain", "gdr-distance").output
    assert "tcp-fallback" in run("--list-rules").output
    assert run("--explain").output == run("--list-rules").output
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


def following(*arguments: str) -> "subprocess.Popen[str]":
    command_line = [sys.executable, "-c", "from raybench.cli import main; main()", "diagnose", "--follow", *arguments]
    return subprocess.Popen(command_line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said_by(process: "subprocess.Popen[str]", text: str) -> None:
    assert process.stderr is not None
    assert text in process.stderr.readline()


@pytest.mark.parametrize("path", ["late.log", "late", "late*.log"], ids=["file", "folder", "glob"])
def test_following_waits_for_what_is_not_there_yet(tmp_path: Path, path: str) -> None:
    with following(str(tmp_path / path)) as process:
        try:
            said_by(process, "waiting for")
            target = tmp_path / ("late/a.log" if path == "late" else "late.log")
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(Path(BAD).read_bytes())
            assert process.stdout is not None
            assert "duplicate-gpu" in process.stdout.readline()
        finally:
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "CRITICAL: " in output
    assert "Traceback" not in errors


def test_following_that_saw_nothing_says_so_at_its_end(tmp_path: Path) -> None:
    with following(str(tmp_path / "never.log")) as process:
        said_by(process, "waiting for")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    assert process.returncode == 2
    assert output.startswith("UNKNOWN: ")
    assert "nothing to judge" in errors


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


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("nccl_trace_rank_0", b"\x80\x04" + b"]" * 400 + b".", "No log could be read: "),
        (
            "trace.json",
            b'{"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "k", "ts": 1, "pid": 0}]}',
            "profiler",
        ),
    ],
)
def test_what_cannot_be_read_is_not_called_empty(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    result = run(str(tmp_path / name))
    assert getattr(result.exception, "exit_code", None) == 2
    shown = str(result.exception)
    assert said in shown
    assert f"{name}: " in shown
    assert "empty" not in shown
    assert len(result.output.splitlines()) < 15


@pytest.fixture
def by_rank(tmp_path: Path) -> Path:
    """A healthy log of two ranks, a file each."""
    lines = Path(GOOD).read_text().splitlines(keepends=True)
    for rank, host in enumerate(("gpu-a", "gpu-b")):
        (tmp_path / f"rank-{rank}.log").write_text("".join(line for line in lines if line.startswith(host)))
    return tmp_path


def verdict_of(*paths: Path) -> tuple[str, str, int]:
    result = run(*map(str, paths), "--format", "json")
    content = json.loads(result.stdout)
    return content["verdict"], content["explanation"], result.exit_code


def test_what_is_left_out_beside_a_healthy_log_is_not_fine(by_rank: Path, tmp_path: Path) -> None:
    """Near miss: an empty file beside the logs of all ranks, as Slurm's of the standard error."""
    (by_rank / "slurm.err").touch()
    assert verdict_of(by_rank)[::2] == ("ok", 0)
    (by_rank / "nccl_trace_rank_1").write_bytes(b"\x80\x04]]].")
    verdict, why, code = verdict_of(by_rank)
    assert (verdict, code) == ("unknown", 3)
    assert "not all that was given could be read: " in why
    assert "nccl_trace_rank_1" in why


def test_a_link_out_of_the_folder_keeps_a_log_from_being_fine(
    by_rank: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("elsewhere") / "rank-2.log"
    outside.write_text("gpu-c:1:1 [0] NCCL WARN failed\n")
    (by_rank / "rank-2.log").symlink_to(outside)
    verdict, why, code = verdict_of(by_rank)
    assert (verdict, code) == ("unknown", 3)
    assert "rank-2.log" in why


def test_a_rank_whose_log_is_empty_is_unknown_and_one_that_is_not_given_is_said(by_rank: Path) -> None:
    (by_rank / "rank-1.log").write_text("")
    verdict, why, code = verdict_of(by_rank)
    assert (verdict, code) == ("unknown", 3)
    assert "rank-1.log is empty" in why
    verdict, why, code = verdict_of(by_rank / "rank-0.log")
    assert (verdict, code) == ("ok", 0)
    assert why == "No problem is shown by the log of 1 of 2 ranks."
