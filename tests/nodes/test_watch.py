"""A watch acts after several looks in a row, survives a round that cannot be done, and stops in order."""

import json
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from raybench.cli.nodes.watch import command as watch_command
from raybench.documents.preflight import PreflightReport
from raybench.errors import IncompleteRunError, UsageError
from raybench.nodes.history import History
from raybench.nodes.hysteresis import Hysteresis, Streak, damped
from raybench.nodes.intent import Policy
from raybench.processes.interrupt import Interrupt
from raybench.services.nodes.judged import ActOptions
from raybench.services.nodes.watch import Watch, WatchOptions, watch
from raybench.services.preflight import FinishedPreflight, PreflightOptions
from raybench.verdicts import NodeState

from .reports import dead, host, report, report_of

RESUME = Policy(degraded="resume")


@pytest.mark.parametrize(
    ("states", "policy", "step"),
    [
        (["drain"] * 2, Policy(), "none"),
        (["drain"] * 3, Policy(), "drain"),
        (["drain", "drain", "healthy", "drain"], Policy(), "none"),
        (["drain", "drain", "degraded", "drain"], Policy(), "none"),
        (["drain", "unknown", "drain", "unknown", "drain"], Policy(), "drain"),
        (["drain", "drain", "drain", "unknown"], Policy(), "none"),
        (["unknown"] * 9, Policy(), "none"),
        (["healthy"], Policy(), "none"),
        (["healthy"] * 2, Policy(), "resume"),
        (["healthy", "unknown", "healthy"], Policy(), "none"),
        (["healthy", "degraded", "healthy"], Policy(), "none"),
        (["healthy", "degraded"], Policy(), "none"),
        (["healthy", "degraded"], RESUME, "resume"),
        (["degraded", "healthy"], RESUME, "resume"),
        (["degraded", "unknown", "degraded"], RESUME, "none"),
    ],
)
def test_a_node_is_drained_after_three_bad_looks_and_resumed_after_two_good_ones(
    states: list[NodeState], policy: Policy, step: str
) -> None:
    streak = Streak()
    for state in states:
        streak = streak.after(state)
    (one,) = damped(report({"a": states[-1]}), {"a": streak}, Hysteresis(bad=3, good=2), policy)
    assert one.step == step


def test_less_than_one_look_is_refused() -> None:
    for wrong in ({"bad": 0}, {"good": 0}):
        with pytest.raises(UsageError):
            Hysteresis(**wrong)


class Looks:
    """Rounds that were seen before, or that break, in place of hosts; the scheduler is a program of its own."""

    def __init__(self, folder: Path, rounds: Sequence[PreflightReport | Exception]) -> None:
        self._folder, self._rounds, self.count = folder, list(rounds), 0

    def __call__(self, options: PreflightOptions) -> FinishedPreflight:
        found = self._rounds[self.count]
        self.count += 1
        if isinstance(found, Exception):
            raise found
        folder = self._folder / f"preflight-{self.count}"
        folder.mkdir()
        return FinishedPreflight(report=found, files=(("report", folder / "preflight.json"),), remarks=())


def fake_slurm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """sinfo and scontrol that keep the state of two nodes in a file. Returns the log of updates."""
    state, log = folder / "state.json", folder / "updates"
    state.write_text(json.dumps({"a": ["idle", "none"], "b": ["idle", "none"]}))
    head = f"#!{sys.executable}\nimport json, sys\nfrom pathlib import Path\nstate = Path({str(state)!r})\n"
    sinfo = (
        "only = sys.argv[sys.argv.index('-n') + 1] if '-n' in sys.argv else ''\n"
        "for name, (now, why) in json.loads(state.read_text()).items():\n"
        "    if not only or name == only: print(f'{name}|{name}|{name}|{now}|root|{why}')\n"
    )
    scontrol = (
        "words = dict(word.split('=', 1) for word in sys.argv[2:])\nnodes = json.loads(state.read_text())\n"
        "drains = words['State'] == 'DRAIN'\n"
        "nodes[words['NodeName']] = ['drained', words['Reason']] if drains else ['idle', 'none']\n"
        "state.write_text(json.dumps(nodes))\n"
        f"open({str(log)!r}, 'a').write(words['NodeName'] + ' ' + words['State'] + '\\n')\n"
    )
    for name, body in {"sinfo": sinfo, "scontrol": scontrol}.items():
        (folder / name).write_text(head + body)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return log


def at(minute: int) -> str:
    return (datetime.now(UTC) - timedelta(minutes=30 - minute)).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_watch_drains_once_resumes_later_and_goes_on_where_a_round_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = fake_slurm(tmp_path, monkeypatch)
    bad = [report({"a": "drain", "b": "healthy"}, at(minute)) for minute in range(4)]
    broken = [IncompleteRunError("the playbook was killed"), UsageError("the inventory is half written")]
    gone = [report_of([dead("a"), host("b", "healthy")], at(5))]
    good = [report({"a": "healthy", "b": "healthy"}, at(minute)) for minute in range(6, 9)]
    said: list[str] = []
    monkeypatch.setattr("raybench.services.nodes.watch._LEAST_SECONDS", 0.0)
    options = WatchOptions(
        preflight=PreflightOptions(output_dir=str(tmp_path)),
        every_seconds=0.0,
        rounds=10,
        keep=2,
        hysteresis=Hysteresis(bad=3, good=2),
        act=ActOptions(apply=True),
        scheduler="slurm",
        prometheus=tmp_path / "nodes.prom",
    )
    watching = Watch(options, say=said.append, look=Looks(tmp_path, [*bad, *broken, *gone, *good]))
    with Interrupt().installed() as interrupt:
        assert watching.run(interrupt) == 0
    assert log.read_text() == "a DRAIN\na RESUME\n"
    text = "\n".join(said)
    assert "round 3" in text
    assert "a: drained: gpu-rows" in text
    assert "round 5: the playbook was killed; no node is changed" in text
    assert "a: drain -> unknown" in text
    assert "a: resumed: raybench drained it" in text
    assert sorted(one.name for one in tmp_path.glob("preflight-*")) == ["preflight-10", "preflight-9"]
    assert 'raybench_node_state{host="a",state="healthy"} 1' in (tmp_path / "nodes.prom").read_text()
    with History(tmp_path / "nodes.sqlite") as history:
        assert history.hosts()["a"].streak == Streak(good=3, fair=3)


def test_a_watch_that_is_started_again_goes_on_counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = fake_slurm(tmp_path, monkeypatch)
    for minute in range(3):
        options = WatchOptions(
            preflight=PreflightOptions(output_dir=str(tmp_path)),
            rounds=1,
            act=ActOptions(apply=True),
            scheduler="slurm",
        )
        (tmp_path / f"{minute}").mkdir()
        looks = Looks(tmp_path / f"{minute}", [report({"a": "drain"}, at(minute))])
        with Interrupt().installed() as interrupt:
            assert Watch(options, say=lambda _: None, look=looks).run(interrupt) == 1
        assert log.exists() == (minute == 2)
    assert log.read_text() == "a DRAIN\n"


def test_the_first_round_that_cannot_be_is_an_error_of_the_user(tmp_path: Path) -> None:
    options = WatchOptions(preflight=PreflightOptions(output_dir=str(tmp_path)), rounds=2)
    with Interrupt().installed() as interrupt, pytest.raises(UsageError):
        Watch(options, say=print, look=Looks(tmp_path, [UsageError("no such file")])).run(interrupt)


def test_a_round_that_was_stopped_is_not_acted_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = fake_slurm(tmp_path, monkeypatch)
    options = WatchOptions(
        preflight=PreflightOptions(output_dir=str(tmp_path)), hysteresis=Hysteresis(bad=1, good=1),
        act=ActOptions(apply=True), scheduler="slurm",
    )  # fmt: skip
    looks = Looks(tmp_path, [report({"a": "drain"}, at(1))])
    with Interrupt().installed() as interrupt:
        interrupt.event.set()  # while hosts were asked
        assert Watch(options, say=lambda _: None, look=looks).run(interrupt) == 3
    assert not log.exists()


def test_a_scheduler_that_is_away_costs_no_other_receiver_and_no_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_slurm(tmp_path, monkeypatch)
    (tmp_path / "sinfo").write_text("#!/bin/sh\necho 'Unable to contact slurm controller' >&2; exit 1\n")
    said: list[str] = []
    options = WatchOptions(
        preflight=PreflightOptions(output_dir=str(tmp_path)), every_seconds=0.0, rounds=2,
        act=ActOptions(apply=True), scheduler="slurm", prometheus=tmp_path / "nodes.prom",
    )  # fmt: skip
    rounds = [report({"a": "healthy"}, at(minute)) for minute in (1, 2)]
    with Interrupt().installed() as interrupt:
        watch_of = Watch(options, say=said.append, look=Looks(tmp_path, rounds))
        assert watch_of.run(interrupt) == 3
    assert watch_of.rounds == 2
    assert sum("Unable to contact slurm controller" in line for line in said) == 2
    assert (tmp_path / "nodes.prom").exists()


@pytest.mark.parametrize(
    "wrong",
    [{"act": ActOptions(most_drained="ten")}, {"prometheus": Path("nodes.txt")}, {"history": Path("/proc/x/h")}],
)
def test_what_cannot_be_is_said_before_a_host_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any]
) -> None:
    monkeypatch.setattr("raybench.services.nodes.watch.preflight", None)
    with pytest.raises(UsageError):
        watch(WatchOptions(preflight=PreflightOptions(output_dir=str(tmp_path)), **wrong), say=print)


def test_a_watch_can_test_its_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[WatchOptions] = []

    def note(options: WatchOptions, **_: object) -> int:
        asked.append(options)
        return 0

    monkeypatch.setattr("raybench.services.nodes.watch.watch", note)
    for words in ([], ["--level", "2"]):
        assert CliRunner().invoke(watch_command, ["-i", "a,", *words]).exit_code == 0
    assert [one.preflight.level for one in asked] == [1, 2]
    assert CliRunner().invoke(watch_command, ["-i", "a,", "--level", "4"]).exit_code == 2


def test_ctrl_c_between_rounds_ends_it_with_the_last_rounds_code(tmp_path: Path) -> None:
    options = WatchOptions(preflight=PreflightOptions(output_dir=str(tmp_path)), every_seconds=60.0)
    watching = Watch(options, say=lambda _: None, look=Looks(tmp_path, [report({"a": "drain"}, at(1))]))
    own = threading.get_ident()

    def stop() -> None:
        while not watching.rounds:
            time.sleep(0.01)
        signal.pthread_kill(own, signal.SIGINT)

    thread = threading.Thread(target=stop)
    with Interrupt().installed() as interrupt:
        thread.start()
        begun = time.monotonic()
        watching.run(interrupt)
    thread.join()
    assert time.monotonic() - begun < 10


def test_ctrl_c_ends_the_command_and_its_hosts_in_order(tmp_path: Path) -> None:
    words = [sys.executable, "-P", "-c", "from raybench.cli import main; main()", "nodes", "watch", "--interval", "600"]
    process = subprocess.Popen(
        [*words, "--output-dir", str(tmp_path / "runs")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=tmp_path,
    )  # fmt: skip
    assert process.stdout is not None
    first = process.stdout.readline()
    assert "round 1: nodes: " in first, process.stderr.read() if process.stderr else ""
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=55)
    assert process.returncode in {0, 1}, errors
    assert "Traceback" not in errors
    assert stat.S_IMODE((tmp_path / "runs/nodes.sqlite").stat().st_mode) == 0o600
