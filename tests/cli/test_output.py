"""A result that is measured is kept, and its exit status stands, whatever becomes of reports and of streams."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from raybench.cli.measure import show
from raybench.cli.output import printing, say
from raybench.documents.run.result import RunResult
from raybench.errors import MissingLibraryError, UsageError
from raybench.reports.progress import ProgressDisplay
from raybench.run_folder import RunFolder, check_can_be_folder, check_output_dir
from raybench.services import one_run as run_service
from raybench.services import run_files
from tests.command import REPOSITORY
from tests.reports.sample import run_result, sweep

# What the command does once it has measured, in a process of its own, so that it may be given any stream.
DELIVER = """
import sys
from raybench import cli
from raybench.cli import measure
from raybench.services.one_run import keep
from raybench.reports.progress import ProgressDisplay
from raybench.run_folder import RunFolder
from raybench.services import run_files
from tests.reports.sample import run_result, sweep

if sys.argv[4] == "without charts":
    run_files.write_html = lambda *_, **__: None

def command():
    display = ProgressDisplay()
    display.start(3, "title")
    display.step("all_reduce", "8", 4)
    display.note("noted")
    display.close()
    folder = RunFolder(sys.argv[1], "run")
    folder.close()
    if sys.argv[3] == "trouble":
        folder.problems.append("trouble")
    finished = keep(run_result(sweep(sizes=(8, 65536, 2**27))), {}, folder)
    measure.show(finished, as_json=sys.argv[2] == "json")
    return finished.exit_code

cli._run_command = command
cli.main()
"""


REDIRECTIONS = [
    "", ">&- 2>&-", ">&-", "<&- >&- 2>&-", ">/dev/full", "2>/dev/full", "| head -1", "2>&-", "| true",
]  # fmt: skip


def delivered(folder: Path, redirection: str, form: str = "text", state: str = "fine") -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a delivery through a shell's redirection.

    The charts of report.html take longer than all else: drawn once where no stream is missing, and where all are.
    """
    is_drawn = redirection in {"", "<&- >&- 2>&-"} and (form, state) == ("text", "fine")
    drawn = "with charts" if is_drawn else "without charts"
    done = subprocess.run(
        [
            "bash",
            "-c",
            f'set -o pipefail; "$0" -c "$1" "$2" {form} {state} "$3" {redirection}',
            sys.executable,
            DELIVER,
            folder,
            drawn,
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("form", "redirection"),
    [
        *(("text", one) for one in REDIRECTIONS),
        *(("json", one) for one in REDIRECTIONS[::2]),
        *(pytest.param("json", one, marks=pytest.mark.long) for one in REDIRECTIONS[1::2]),
    ],
)
def test_no_stream_changes_the_exit_status_or_shows_a_traceback(tmp_path: Path, redirection: str, form: str) -> None:
    status, _, errors = delivered(tmp_path, redirection, form)
    assert status == 0, errors
    assert "Traceback" not in errors
    assert "Exception ignored" not in errors
    assert json.loads((tmp_path / "run" / "result.json").read_text())["status"] == "complete"
    assert (tmp_path / "run" / "samples.jsonl").read_text() == ""


@pytest.mark.parametrize("redirection", ["", ">&-", ">/dev/full", "| true"])
def test_an_incomplete_run_stays_one(tmp_path: Path, redirection: str) -> None:
    assert delivered(tmp_path, redirection, state="trouble")[0] == 3


def test_a_full_standard_output_is_said(tmp_path: Path) -> None:
    assert "standard output cannot be written: No space left" in delivered(tmp_path, ">/dev/full")[2]


SAMPLE = "tests/documents/samples/collective-26f0ebe.json"


@pytest.mark.parametrize(
    ("words", "redirection", "status"),
    [
        (["show", SAMPLE], ">/dev/full", 2),
        (["show", SAMPLE, "--format", "json"], ">/dev/full", 2),
        (["show", "--help"], ">/dev/full", 2),
        (["--version"], ">/dev/full", 2),
        (["show", SAMPLE], "| true", 0),  # the reader has what it wants
        (["show", SAMPLE], ">&-", 0),
        (["show", "nowhere"], ">/dev/full", 2),
    ],
)
def test_what_is_nowhere_else_and_cannot_be_written_is_no_success(
    words: list[str], redirection: str, status: int
) -> None:
    done = subprocess.run(
        ["bash", "-c", f'set -o pipefail; "$@" {redirection}', "bash", sys.executable, "-m", "raybench", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (status, False), done.stderr


def deliver(result: RunResult, logs: dict[str, bytes], folder: RunFolder) -> int:
    """What the command does once it has measured."""
    finished = run_service.keep(result, logs, folder)
    show(finished, as_json=False)
    return finished.exit_code


def fail(error: Exception) -> Callable[..., None]:
    def failing(*_: object, **__: object) -> None:
        raise error

    return failing


@pytest.mark.parametrize("name", ["write_diagnosis", "write_csv", "write_html"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyError("x"), RecursionError("deep")])
def test_what_explains_a_result_may_fail_and_the_result_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, error: Exception
) -> None:
    monkeypatch.setattr(run_files, "write_html", lambda *_: None)  # its charts take longer than all else
    monkeypatch.setattr(run_files, name, fail(error))
    folder = RunFolder(str(tmp_path), "run")
    folder.close()
    status = deliver(run_result(sweep()), {"output-rank-0.log": b"x"}, folder)
    assert status == 3
    assert json.loads((folder.path / "result.json").read_text())["run_id"]
    said = capsys.readouterr()
    assert "all_reduce" in said.out
    assert "could not be" in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize(("samples", "left"), [("", []), ("{}\n", ["run"])])
def test_a_command_that_is_stopped_at_once_leaves_no_empty_folder(
    tmp_path: Path, samples: str, left: list[str]
) -> None:
    folder = RunFolder(str(tmp_path), "run")
    folder.close()
    (folder.path / "samples.jsonl").write_text(samples)
    with pytest.raises(KeyboardInterrupt), run_service._nothing_left(folder):
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == left


def test_the_result_is_written_before_anything_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_files, "write_diagnosis", fail(KeyboardInterrupt()))
    folder = RunFolder(str(tmp_path), "run")
    folder.close()
    with pytest.raises(KeyboardInterrupt):
        deliver(run_result(sweep()), {}, folder)
    assert (folder.path / "result.json").exists()


def test_a_library_of_the_report_that_is_missing_is_only_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_files, "write_html", fail(MissingLibraryError("needs jinja2")))
    folder = RunFolder(str(tmp_path), "run")
    folder.close()
    assert deliver(run_result(sweep()), {}, folder) == 0
    assert "needs jinja2" in capsys.readouterr().err


def test_a_result_that_cannot_be_kept_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder(str(tmp_path), "run")
    folder.close()
    monkeypatch.setattr(RunFolder, "write_json", fail(OSError(28, "No space left on device")))
    assert deliver(run_result(sweep()), {}, folder) == 3
    assert json.loads(capsys.readouterr().out)["schema"] == "raybench.result/1"


def test_a_display_whose_terminal_has_gone_ends_quietly() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        display = ProgressDisplay(full)
        display.start(3, "title")
        display.step("all_reduce", "8", 2)
        display.note("noted")
        display.close()
        with pytest.raises(OSError, match="No space left"):
            full.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())


def test_what_is_said_moves_no_cursor_and_keeps_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    say("raybench: a\x1b[2J\x9b31m is not a log\nnode \u202egnp.exe: caf\u00e9\ttab")
    assert capsys.readouterr().err == "raybench: a\\x1b[2J\\x9b31m is not a log\nnode \\u202egnp.exe: caf\u00e9\\ttab\n"


def test_printing_swallows_nothing_but_trouble_with_the_stream() -> None:
    with pytest.raises(KeyError), printing("stdout"):
        raise KeyError


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_any_command_in_order(number: signal.Signals) -> None:
    command = [sys.executable, "-c", "from raybench.cli import main; main()", "diagnose", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY) as process:
        assert process.stdin is not None
        process.stdin.write("step 1\n" * 20_000)  # more than a pipe holds
        process.stdin.flush()  # comes back once it reads
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors.splitlines()[-1:]) == (3, ["raybench: stopped"])


@pytest.mark.parametrize("failing", ["the comparison", "write_csv", "write_html", "write_summary", ""])
def test_the_verdict_on_disk_is_that_of_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    folder = RunFolder(str(tmp_path), "run")
    if failing.startswith("write"):
        monkeypatch.setattr(run_files, failing, lambda *_: 1 / 0)
    elif failing:
        folder.problems.append(f"{failing} could not be made")
    code = deliver(run_result(sweep()), {}, folder)
    folder.close()
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (code, result["verdict"]) == ((3, "incomplete") if failing else (0, "ok"))
    assert ("could not be made" in result["verdict_reason"]) == bool(failing)


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("/dev/null", "Not a directory"),
        ("/dev/null/runs", "Not a directory"),
        ("/proc/x", "No such file"),  # root may write here by its permissions
        ("/proc", "No such file"),
        ("/sys/kernel/x", "not permitted|denied|Read-only"),
        ("{tmp}/new/" + "x" * 300, "File name too long"),  # below a folder that is not there yet
        ("{tmp}/loop/runs", "Too many levels|File exists"),
        ("{tmp}/nul\0/runs", "null"),
    ],
)
def test_a_dry_run_refuses_an_output_folder_that_the_run_would(tmp_path: Path, place: str, reason: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    place = place.replace("{tmp}", str(tmp_path))
    with pytest.raises(UsageError, match=reason):
        check_output_dir(place)
    with pytest.raises(UsageError, match=reason):
        RunFolder(place, "run")
    with pytest.raises((OSError, ValueError), match=reason):  # as `checkpoint --to` names it
        check_can_be_folder(Path(place))
    assert [one.name for one in tmp_path.iterdir()] == ["loop"]


def test_a_dry_run_refuses_a_disk_without_room(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("a full disk needs a mount, and that needs root")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path], check=False)
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        with pytest.raises(UsageError, match="No space left"):
            check_output_dir(str(tmp_path / "runs"))
        subprocess.run(["mount", "-o", "remount,ro", tmp_path], check=True)
        with pytest.raises(UsageError, match="Read-only file system"):
            check_output_dir(str(tmp_path / "runs"))
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)


def test_a_dry_run_refuses_a_folder_of_somebody_else(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may become another user")
    tmp_path.chmod(0o755)
    child = os.fork()
    if child == 0:
        os.seteuid(65534)
        try:
            check_can_be_folder(tmp_path / "runs")
        except PermissionError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_dry_run_makes_no_folder(tmp_path: Path) -> None:
    check_output_dir(str(tmp_path / "new" / "runs"))
    check_can_be_folder(tmp_path / "new" / "stored")
    check_can_be_folder(tmp_path)
    assert not any(tmp_path.iterdir())


def test_one_more_ctrl_c_while_python_ends_changes_nothing() -> None:
    code = (
        "import atexit, os, signal, sys; from raybench.cli import main; sys.argv = ['raybench', '--version']\n"
        "numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP\n"
        "atexit.register(lambda: [os.kill(os.getpid(), number) for number in numbers])\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
