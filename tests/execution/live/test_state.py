"""What `raybench top` shows of a run: written by its command as it hears of it, read and shown by another one."""

import json
import os
import time
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from diagnostics.agent.messages import Reading, encode
from raybench.cli.top import command
from raybench.config import RunConfig
from raybench.documents.live_run import WRITING, LiveMachine, LiveRank, LiveRemarkLine, LiveRun
from raybench.errors import UsageError
from raybench.execution.live import state as live_state
from raybench.execution.live.agents import HeardAgent
from raybench.execution.live.state import LiveState
from raybench.execution.live.warning import LiveWarning
from raybench.execution.record import RunRecord
from raybench.reports.terminal.top import top_lines
from raybench.run_folder import RunFolder
from raybench.services.top import live_run

RUN = LiveRun(
    run_id="20261123-031551-af6d",
    pid=42,
    written_at=1000.0,
    elapsed_seconds=12.5,
    phase="measuring",
    title="2 nodes, 2 ranks, nccl",
    benchmark="ddp tiny",
    progress="step 40 of 400, loss 3.25",
    total=3,
    ranks=(
        LiveRank(rank=0, node="gpu-1", state="S", where="ddp tiny, timing", still_seconds=0.0),
        LiveRank(rank=1, node="gpu-2\x1b[31m", state="T", where="ddp tiny, timing", still_seconds=4.0),
    ),
    machines=(LiveMachine(name="gpu-1", figures={"port mlx5_0:1 sent GB/s": 41.5}),),
    warnings=(LiveRemarkLine(at_seconds=9.0, text="WARNING: rank 1 on gpu-2 has stood still for 1.5 s"),),
)


def test_a_screen_has_ranks_that_stand_still_first_and_nothing_that_moves_a_cursor() -> None:
    assert top_lines(RUN, 1001.0) == [
        "run 20261123-031551-af6d, process 42: measuring, after 12.5 s",
        "2 nodes, 2 ranks, nccl",
        "[1/3] ddp tiny, step 40 of 400, loss 3.25",
        "rank    1 on gpu-2\\x1b[31m: stopped, ddp tiny, timing, not moved for 4.0 s",
        "rank    0 on gpu-1: ddp tiny, timing",
        "gpu-1: port mlx5_0:1 sent GB/s 41.50",
        "",
        "    9.0 s  WARNING: rank 1 on gpu-2 has stood still for 1.5 s",
    ]


def test_a_run_whose_command_says_nothing_is_not_shown_as_fine() -> None:
    assert "NOTHING NEW for 60.0 s: its command was killed, or is stopped" in top_lines(RUN, 1060.0)


def test_of_many_ranks_and_machines_one_screen_is_shown() -> None:
    ranks = tuple(LiveRank(rank=n, node="a", state="S", where="timing", still_seconds=0) for n in range(8000))
    machines = tuple(LiveMachine(name=f"gpu-{n}", figures={}) for n in range(1000))
    lines = top_lines(msgspec.structs.replace(RUN, ranks=ranks, machines=machines), 1000.0)
    assert len(lines) < 40
    assert "and 7984 more ranks" in lines


def test_what_the_command_hears_is_what_another_one_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, record = LiveState(), RunRecord(config=RunConfig(), run_id="20261123-031551-af6d")
    state.shown("start", (3, "2 ranks, gloo"))
    state.shown("step", ("all_reduce", "1M", 2))
    warning = LiveWarning(at_seconds=2.0, since_seconds=0.5, rule="rank-stalled", severity="warning", text="rank 1 ...")
    for _ in range(50):
        state.warned(warning)
    agent = HeardAgent(machine="gpu-1", nodes=["gpu-1"], ranks=frozenset(), started=0.0)
    for second, value in ((1.0, 0.0), (2.0, 2e9)):
        reading = Reading(monotonic_seconds=second, source="nics", values={"nic/eth0/sent_bytes": value})
        agent.take(encode(reading).encode() + b"\n", time.monotonic())
    monkeypatch.setattr(live_state, "_PERIOD_SECONDS", 600.0)
    page = state.page(record, "measuring", [agent])
    assert page is not None
    assert state.page(record, "measuring", [agent]) is None  # no more than one in that time
    folder = RunFolder(str(tmp_path), record.run_id)
    folder.write_state(page)
    for place in (folder.path, tmp_path):
        live = live_run(place)
        assert (live.pid, live.benchmark, live.done, live.total) == (os.getpid(), "all_reduce 1M", 0, 3)
        assert live.machines == (LiveMachine(name="gpu-1", figures={"nic eth0 sent GB/s": 2.0}),)
        assert [one.text for one in live.warnings] == ["WARNING: rank 1 ..."] * 20
    folder.close()
    with pytest.raises(UsageError, match="no run goes on"):
        live_run(folder.path)


def test_the_command_prints_a_screen_or_the_data_and_says_what_is_missing(tmp_path: Path) -> None:
    runner = CliRunner()
    (tmp_path / "live.json").write_bytes(msgspec.json.encode(msgspec.structs.replace(RUN, written_at=time.time())))
    shown = runner.invoke(command, [str(tmp_path), "--once"])
    assert (shown.exit_code, "rank    0 on gpu-1" in shown.output) == (0, True)
    data = runner.invoke(command, [str(tmp_path), "--once", "--json"])
    assert json.loads(data.output)["schema"] == "raybench.live/1"
    (tmp_path / "live.json").write_text('{"schema": "raybench.live/7"}')
    assert isinstance(runner.invoke(command, [str(tmp_path), "--once"]).exception, UsageError)
    (tmp_path / "live.json").unlink()
    assert isinstance(runner.invoke(command, [str(tmp_path), "--once"]).exception, UsageError)


def test_of_many_runs_the_one_that_is_written_now_is_shown_whatever_a_killed_one_left(tmp_path: Path) -> None:
    for name, age in (("20261123-0100", 0.0), ("20261123-0200", 3600.0)):
        (tmp_path / name).mkdir()
        live = tmp_path / name / "live.json"
        live.write_bytes(msgspec.json.encode(msgspec.structs.replace(RUN, run_id=name)))
        os.utime(live, (time.time() - age, time.time() - age))
    assert live_run(tmp_path).run_id == "20261123-0100"
    os.mkfifo(tmp_path / "20261123-0200" / "other")
    (tmp_path / "20261123-0300").mkdir()
    os.mkfifo(tmp_path / "20261123-0300" / "live.json")
    assert live_run(tmp_path).run_id == "20261123-0100"


@pytest.mark.parametrize(("wrong_seconds", "written", "code"), [(3600, True, 0), (-3600, True, 0), (3600, False, 3)])
def test_a_clock_that_is_wrong_kills_no_run_and_one_that_was_killed_is_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong_seconds: int, written: bool, code: int
) -> None:
    def write(second: float) -> None:
        there = msgspec.structs.replace(RUN, written_at=time.time() - wrong_seconds + second)
        (tmp_path / "live.json").write_bytes(msgspec.json.encode(there))

    write(0)
    monkeypatch.setattr("raybench.cli.top.time.sleep", lambda seconds: write(seconds) if written else None)
    done = CliRunner().invoke(command, [str(tmp_path), "--once"])
    assert (done.exit_code, "NOTHING NEW" in done.output) == (code, code == 3)


def test_the_end_of_the_run_and_ctrl_c_end_the_command_and_it_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = tmp_path / "live.json"

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    for end, words in ((lambda _: live.unlink(), "the run has ended: raybench show"), (interrupt, "")):
        live.write_bytes(msgspec.json.encode(msgspec.structs.replace(RUN, written_at=time.time())))
        monkeypatch.setattr("raybench.cli.top.time.sleep", end)
        done = CliRunner().invoke(command, [str(tmp_path)])
        assert (done.exit_code, words in done.output, done.exception and type(done.exception)) in (
            (0, True, None),
            (0, True, SystemExit),
        )


def test_a_run_that_writes_its_result_or_seldom_is_not_said_to_be_killed() -> None:
    writing = msgspec.structs.replace(RUN, phase=WRITING)
    assert "NOTHING NEW for 60.0 s: its command writes the result, was killed, or is stopped" in top_lines(
        writing, 1060.0
    )
    large = msgspec.structs.replace(RUN, period_seconds=8.0)
    assert not any("NOTHING NEW" in line for line in top_lines(large, 1010.0))
    assert any("NOTHING NEW" in line for line in top_lines(large, 1030.0))


def test_what_a_full_disk_left_of_the_state_goes_with_the_run(tmp_path: Path) -> None:
    folder = RunFolder(str(tmp_path), "20261123-031551-af6d")
    (folder.path / ".live.json.partial").write_text("{")
    folder.discard()
    assert not folder.path.exists()
