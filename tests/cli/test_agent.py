"""``raybench agent``: warnings on the terminal or in the journal's form, samples in a bounded file, and a clean end."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from diagnostics.agent.message_reader import MessageReader
from diagnostics.agent.messages import Clock, Reading, Source, Warned
from diagnostics.agent.sample_file import SampleFile
from raybench.errors import UsageError
from raybench.services.agent import NodeOptions, NodeWarning, sample_node
from tests.diagnostics.agent.machine import machine, port, write

RAYBENCH = [sys.executable, "-P", "-c", "from raybench.cli import main; main()"]
FALLBACK = (
    "n1:1:1 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n"
    "n1:1:2 [0] NCCL INFO NET/IB : No device found.\n"
    "n1:1:2 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\n"
    "n1:1:2 [0] NCCL INFO Using network Socket\n"
    "n1:1:2 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0\n"
    "n1:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x2 - Init COMPLETE\n"
)


@contextmanager
def agent(*options: str, extra: Mapping[str, str] | None = None) -> "Iterator[subprocess.Popen[str]]":
    variables = {name: value for name, value in os.environ.items() if name != "JOURNAL_STREAM"} | dict(extra or {})
    child = subprocess.Popen(
        [*RAYBENCH, "agent", "--interval", "0.2", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=variables,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_samples_into_a_file_and_ends_cleanly(tmp_path: Path, how: signal.Signals) -> None:
    kept = tmp_path / "samples.jsonl"
    with agent("-o", str(kept), "--folder", str(tmp_path)) as child:
        deadline = time.monotonic() + 30
        assert child.stdout is not None
        assert "sampled:" in child.stdout.readline()
        while kept.stat().st_size == 0:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        child.send_signal(how)
        assert child.stderr is not None
        errors = child.stderr.read()
        child.wait(timeout=30)
    assert child.returncode in {0, 1}, errors  # 1: something was wrong with this machine meanwhile
    assert "Traceback" not in errors
    reader = MessageReader()
    messages = list(reader.feed(kept.read_bytes()))
    assert isinstance(messages[0], Clock)
    assert any(isinstance(one, Reading) and one.source == "host" for one in messages)
    assert not reader.refused


@pytest.mark.timed
@pytest.mark.parametrize(("extra", "begins"), [({}, ""), ({"JOURNAL_STREAM": "8:1"}, "<")])
def test_a_fallback_in_a_log_is_told_with_what_to_do(tmp_path: Path, extra: Mapping[str, str], begins: str) -> None:
    with agent("--log", str(tmp_path / "*.log"), extra=extra) as child:
        assert child.stdout is not None
        assert "sampled:" in child.stdout.readline()  # it has started
        (tmp_path / "nccl.log").write_text(FALLBACK)
        began = time.monotonic()
        line = next(line for line in child.stdout if "[tcp-fallback]" in line)
        assert time.monotonic() - began < 10  # 5 s, beside other tests
        assert line[:1] == begins or not begins
        following = [child.stdout.readline() for _ in range(3)]
        assert any("shown by n1:1:2" in one for one in following)
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=30) == 1


def test_one_look_as_json_is_the_messages_of_the_agent() -> None:
    done = subprocess.run(
        [*RAYBENCH, "agent", "--interval", "0.2", "--once", "--json"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    kinds = [json.loads(line)["kind"] for line in done.stdout.splitlines()]
    assert kinds[0] == "clock"
    assert {"source", "reading"} <= set(kinds)
    assert done.returncode in {0, 1}


def test_it_ends_when_nobody_reads_its_messages_any_more() -> None:
    with agent("--json") as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.stdout.close()
        assert child.wait(timeout=60) in {0, 1, 3}  # 3: before anything was read
        assert child.stderr is not None
        assert "Traceback" not in child.stderr.read()
        child.stdout = None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--interval", "0"], "--interval is from 0.1"),
        (["--interval", "nan"], "--interval is from 0.1"),
        (["--pid", "4194305"], "there is no process 4194305"),
        (["-o", "/no/such/folder/x"], "No such file or directory"),
        (["-o", "x", "--max-bytes", "10"], "--max-bytes is at least"),
    ],
)
def test_invalid_usage_ends_with_2(options: list[str], words: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [*RAYBENCH, "agent", "--once", *options], check=False, capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert done.returncode == 2
    assert words in done.stderr


def test_a_port_whose_errors_grow_is_warned_of_and_the_exit_code_says_so(tmp_path: Path) -> None:
    root = machine(tmp_path)
    folder = port(root, "mlx5_3")
    told: list[NodeWarning] = []
    count = 0

    def grow(_: str) -> None:
        nonlocal count
        count += 100
        write(folder, "counters/symbol_error", count)

    options = NodeOptions(interval_seconds=0.2, once=True, sys=root / "sys", proc=root / "proc")
    finished = sample_node(options, on_warning=told.append, on_line=grow)
    assert finished.exit_code == 1
    assert [one.finding.rule for one in told] == ["port-errors"]
    assert "mlx5_3:1: " in told[0].finding.summary
    assert {source.name for source in finished.sources if source.available} >= {"ports", "nics", "host"}


def test_a_machine_that_is_well_is_no_finding_and_one_that_shows_nothing_is_unknown(tmp_path: Path) -> None:
    root = machine(tmp_path / "well")
    options = NodeOptions(interval_seconds=0.2, once=True, sys=root / "sys", proc=root / "proc")
    assert sample_node(options).exit_code == 0
    nothing = NodeOptions(interval_seconds=0.1, once=True, sys=tmp_path / "none", proc=tmp_path / "none")
    assert sample_node(nothing).exit_code == 3
    with pytest.raises(UsageError, match="no process 77"):
        sample_node(NodeOptions(once=True, pids=(77,), proc=root / "proc"))
    os.mkfifo(tmp_path / "pipe.log")
    with pytest.raises(UsageError, match="is not a file: it would be waited for"):
        sample_node(NodeOptions(once=True, logs=(str(root), str(tmp_path / "pipe.log")), proc=root / "proc"))


def test_the_file_is_bounded_and_each_half_can_be_read_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    file = SampleFile(path, 40_000)
    file.write(Clock(wall_seconds=1e9, monotonic_seconds=0.0, host="a", interval_seconds=1.0))
    file.write(Source(monotonic_seconds=0.0, name="gpus", available=False, reason="none"))
    for second in range(1000):
        file.write(Reading(monotonic_seconds=float(second), source="host", values={"host/load/one_minute": 0.5}))
    file.close()
    halves = [path, path.with_name("samples.jsonl.1")]
    assert sum(half.stat().st_size for half in halves) <= 40_000
    for half in halves:
        reader = MessageReader()
        messages = list(reader.feed(half.read_bytes()))
        assert isinstance(messages[0], Clock)
        assert isinstance(messages[1], Source)
        assert not reader.refused
    assert messages[-1].monotonic_seconds < 999  # the older half
    assert not any(isinstance(one, Warned) for one in messages)


def test_half_a_line_of_an_agent_that_was_killed_costs_itself_only(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text('{"kind":"reading","mono')
    file = SampleFile(path, 40_000)
    file.write(Clock(wall_seconds=1e9, monotonic_seconds=0.0, host="a", interval_seconds=1.0))
    file.close()
    reader = MessageReader()
    assert [type(one) for one in reader.feed(path.read_bytes())] == [Clock]
    assert reader.refused.total() == 1


def test_samples_that_a_full_disk_does_not_keep_are_said_at_once_and_are_3(tmp_path: Path) -> None:
    root = machine(tmp_path)
    said: list[str] = []
    options = NodeOptions(
        interval_seconds=0.1, once=True, sys=root / "sys", proc=root / "proc", output=Path("/dev/full")
    )
    lines: list[int] = []
    finished = sample_node(options, on_remark=said.append, on_line=lambda _: lines.append(len(said)))
    assert finished.exit_code == 3
    assert said == ["samples are no longer kept: No space left on device"]
    assert lines[-1] == 1, "before the end"
