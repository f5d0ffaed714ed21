"""A tracker's process: what it is told, what it answers, and that nothing of it holds up or ends a run."""

import os
import queue
import signal
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from raybench.errors import UsageError
from raybench.trackers.base import Answer, Begun, Closed, Concluded, Figures, Message, Remark, Started, Taken, flat
from raybench.trackers.handle import MOST_WAITING, TrackerProcess
from raybench.trackers.process import Server
from raybench.trackers.registry import KINDS, check_trackers, names_of
from tests.trackers.test_event_file import contents

END = Concluded(verdict="ok", reason="", exit_code=0)


class Client:
    """A client that fails where it is told to."""

    where, remark = "http://user:hunter2@server/run", ""

    def __init__(self, *fails: str) -> None:
        self.fails, self.calls = fails, []

    def _call(self, name: str, *what: object) -> None:
        self.calls.append((name, *what))
        if name in self.fails:
            raise ConnectionError(f"{name}: no answer, key sesame-123\nsecond line" + "x" * 1000)

    def begin(self, begun: Begun) -> None:
        self._call("begin")

    def log(self, figures: Iterable[Figures]) -> None:
        self._call("log", [one.position for one in figures])

    def remark_on(self, remark: Remark) -> None:
        self._call("remark_on", remark.text)

    def conclude(self, concluded: Concluded) -> None:
        self._call("conclude", concluded.verdict)

    def close(self, exit_code: int | None) -> None:
        self._call("close", exit_code)


def begun(folder: Path | str = "/nowhere") -> Begun:
    return Begun(run_id="20261123-192234-2de2", command="train", folder=str(folder), settings={"a|b": "`x` <b>"})


def figure(position: int) -> Figures:
    return Figures(group="ddp", axis="step", position=position, values={"loss": 1.0 / position}, at=1e9)


def served(client: Client, *messages: Message) -> list[Answer]:
    waiting: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    for one in (*messages, None):
        waiting.put(one)
    answers: list[Answer] = []
    Server(name="comet", answer=answers.append, tracker=client).serve(waiting)
    return answers


def test_figures_are_logged_together_and_all_is_counted() -> None:
    client = Client()
    answers = served(client, begun(), figure(1), figure(2), Remark(number=1, text="slow", at=0.0), figure(3), END)
    assert client.calls == [
        ("begin",),
        ("log", [1, 2]),
        ("remark_on", "slow"),
        ("log", [3]),
        ("conclude", "ok"),
        ("close", 0),
    ]
    assert sum(one.count for one in answers if isinstance(one, Taken)) == 6
    assert answers[1] == Started(where="http://set@server/run")
    assert answers[-1] == Closed(where="http://set@server/run")


def test_what_fails_is_told_without_secrets_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMET_API_KEY", "sesame-123")
    client = Client("log")
    answers = served(client, begun(), figure(1), END)
    (lost,) = (one for one in answers if isinstance(one, Taken) and one.lost)
    assert lost.error.startswith("ConnectionError: log: no answer, key set second line")
    assert len(lost.error) < 400
    assert client.calls[-2:] == [("conclude", "ok"), ("close", 0)]


def test_a_run_that_could_not_begin_is_told_once_and_nothing_else() -> None:
    client = Client("begin")
    (only,) = served(client, begun(), figure(1), END)
    assert isinstance(only, Taken)
    assert only.lost == 1
    assert client.calls == [("begin",)]


def test_a_command_that_is_lost_leaves_a_run_that_is_closed_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raybench.trackers.process._end_soon", lambda: None)
    client = Client()
    served(client, begun(), figure(1))
    assert client.calls[-1] == ("close", None)


def wait_until(done: object, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_real_process_writes_while_the_run_goes_on_and_ends_with_it(tmp_path: Path) -> None:
    tracker = TrackerProcess("tensorboard")
    tracker.begin(begun(tmp_path))
    tracker.send(figure(1))
    wait_until(lambda: len(files := [*tmp_path.glob("tensorboard/*")]) == 1 and len(contents(files[0])) == 3)
    assert tracker.outcome().status == "logging"
    tracker.send(END)
    tracker.finish(time.monotonic() + 120, lambda: False)
    assert tracker.outcome().to_json() == {
        "tracker": "tensorboard",
        "status": "logged",
        "where": str(tmp_path / "tensorboard"),
        "remark": "",
        "problem": "",
    }
    assert tracker.complaint() is None
    found = contents(next(tmp_path.glob("tensorboard/*")))
    assert b"\\`x\\` &lt;b>" in found[1], "settings are no markup"
    assert b"**ok**" in found[-1]
    assert not Path(f"/proc/{tracker._process.pid}").exists()


def test_one_that_hangs_costs_the_limit_and_one_that_dies_is_said_once(tmp_path: Path) -> None:
    hangs, dies = TrackerProcess("tensorboard"), TrackerProcess("tensorboard")
    for one in (hangs, dies):
        one.begin(begun(tmp_path))
        wait_until(lambda one=one: one._started)
    os.kill(hangs._process.pid, signal.SIGSTOP)
    os.kill(dies._process.pid, signal.SIGKILL)
    wait_until(dies._over.is_set)
    assert dies.complaint() == "TensorBoard: its process ended without a word; the run goes on without it"
    assert dies.complaint() is None
    began = time.monotonic()
    for number in range(1, MOST_WAITING + 100):
        hangs.send(figure(number))
        dies.send(figure(number))
    hangs.send(END)
    assert time.monotonic() - began < 30, "nobody waits for it"
    for one in (hangs, dies):
        one.finish(time.monotonic() + 0.2, lambda: False)
        assert not Path(f"/proc/{one._process.pid}").exists()
    assert hangs.outcome().status == dies.outcome().status == "partial"
    assert "did not take all within the time limit" in hangs.outcome().problem
    assert " messages are not there" in hangs.outcome().problem


def test_a_name_that_there_is_not_and_a_client_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert names_of(["wandb, mlflow", "wandb"]) == ("wandb", "mlflow")
    with pytest.raises(UsageError, match="wandb"):
        names_of(["wandbb"])
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    check_trackers(["tensorboard"])
    for name in set(KINDS) - {"tensorboard"}:
        with pytest.raises(UsageError, match=rf"--track {name} needs .*: pip install '\.\[{name}\]'"):
            check_trackers([name])


def test_settings_are_flat_and_short() -> None:
    given = {"nodes": 2, "env": ("A=set",), "baseline": None, "training": {"steps": 20, "data": "x" * 1000}, "t": ()}
    assert flat(given) == {"nodes": "2", "env": "A=set", "training.steps": "20", "training.data": "x" * 500}


@pytest.mark.parametrize("given", [[""], [" "], [","], ["tensorboard", ""]])
def test_a_tracker_without_a_name_is_refused(given: list[str]) -> None:
    with pytest.raises(UsageError, match="--track is empty"):
        names_of(given)


def test_no_tracker_is_none_and_a_list_may_end_in_a_comma() -> None:
    assert names_of([]) == ()
    assert names_of(["tensorboard,", "mlflow,tensorboard"]) == ("tensorboard", "mlflow")
