"""What the command knows of a run whose driver, a real process, does not come to its end, or cannot be understood."""

import json
import subprocess
import sys
from typing import Any

import pytest

# A process of its own, since it adopts what is left below it from then on.
CODE = """
import json, os, shutil, signal, subprocess, sys, threading, time
from pathlib import Path
from raybench.execution import decision
from raybench.execution import driver
from raybench.execution import run
from raybench.execution import supervisor
from raybench.execution.account import Account
from raybench.execution.incidents.incident import Incident
from raybench.processes.interrupt import Interrupt
from raybench.execution.record import RunRecord
from raybench.config import RunConfig
from raybench.errors import IncompleteRunError, UsageError

run._LEAVE_SECONDS = decision._GRACE_SECONDS = decision._SILENT_GRACE_SECONDS = 1.5

gcs = f"{sys.argv[1]}/gcs_server"  # a process that is known as the head by its name
os.symlink(shutil.which("sleep"), gcs)

class NodeActorError(IncompleteRunError):
    def __init__(self, *, node):
        super().__init__(f"the node actor of {node} did not start")

class NoWayBack:
    def __reduce__(self):
        return int, ("no number",)

def leave(channel):
    if leaving == "dies":
        if trouble == "none":
            has_sent(channel)
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60 if leaving == "hangs" else 0)

def has_sent(channel):
    channel._waiting.put(sent := threading.Event())
    sent.wait()

def join(self, stack):
    stack.callback(leave, self.channel)

def measure(self, stack, joined):
    match trouble:
        case "actor":
            raise NodeActorError(node="node-2")
        case "usage":
            raise UsageError("--nodes 3 is more than there are")
        case "bug":
            raise ZeroDivisionError("division by zero")
        case "interrupt":
            raise KeyboardInterrupt
        case "unreadable":
            self.channel._put(NoWayBack())
            self.channel.logs({"nccl-rank-0.log": b"said after it"})
        case "warm":
            self.channel.joining("192.0.2.1:6379")
            self.channel.outliving("raybench-warm", 2)
            has_sent(self.channel)
        case "limit" | "limit-stopped" | "signal":
            head = subprocess.Popen([gcs, "60"])
            if trouble == "limit-stopped":
                while gcs not in Path(f"/proc/{head.pid}/cmdline").read_text():
                    time.sleep(0.01)  # until it has its own program
                head.send_signal(signal.SIGSTOP)
            kind = "interrupted" if trouble == "signal" else "time-limit"
            self.record.incidents.append(Incident(kind=kind, reason="it is over"))
            self.channel.consult(self.record)
            head.kill()

class Guard:
    def node_actors_outlive(self, *group):
        told.append(group)

    def node_actors_may_stay(self):
        told.append(())

class Journal:
    def write_state(self, content):
        assert json.loads(content)["run_id"] == "a"

farewells, told = [], []
supervisor.say_farewell = lambda *group: farewells.append(group) or True
run.Run._join, run.Run._measure = join, measure
found = {}
for case in sys.argv[2:]:
    trouble, leaving = case.split()
    record = RunRecord(config=RunConfig(), run_id="a")
    with Interrupt().installed() as interrupt, interrupt.counting():
        started = driver.start_driver(record, None, Path(sys.argv[1]))
        watch = supervisor.Supervisor(
            account=Account(record=record),
            driver=started,
            display=None,
            journal=Journal(),
            interrupt=interrupt,
            guard=Guard(),
        )
        refusal = watch.watch()
    found[case] = {
        "farewells": farewells[:],
        "guard": told[:],
        "refusal": refusal and f"{type(refusal).__name__}: {refusal}",
        "findings": [(one.rule, one.summary) for one in watch.record.result().findings],
        "logs": sorted(watch.record.logs),
    }
    farewells.clear()
    told.clear()
print(json.dumps(found))
"""
CASES = ["actor ends", "actor hangs", "actor dies", "bug hangs", "usage hangs", "interrupt hangs", "unreadable ends"]
CASES += ["limit ends", "limit-stopped ends", "signal ends", "warm dies", "warm ends"]
FINE = ["none ends", "none hangs", "none dies"]


@pytest.fixture(scope="module")
def concluded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What is concluded of runs, by what ended each and how its driver then left."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path_factory.mktemp("place")), *CASES, *FINE],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("leaving", ["ends", "hangs", "dies"])
def test_why_a_run_failed_is_known_however_the_driver_leaves(
    concluded: dict[str, dict[str, Any]], leaving: str
) -> None:
    found = concluded[f"actor {leaving}"]
    assert (found["refusal"], found["findings"]) == (None, [["cluster-lost", "the node actor of node-2 did not start"]])


def test_a_bug_of_the_driver_is_named_though_it_hangs(concluded: dict[str, dict[str, Any]]) -> None:
    ((rule, summary),) = concluded["bug hangs"]["findings"]
    assert (rule, "ZeroDivisionError: division by zero" in summary) == ("cluster-lost", True)


def test_wrong_use_is_refused_though_the_driver_hangs(concluded: dict[str, dict[str, Any]]) -> None:
    assert concluded["usage hangs"]["refusal"] == "UsageError: --nodes 3 is more than there are"


def test_an_interrupt_stays_one_though_the_driver_hangs(concluded: dict[str, dict[str, Any]]) -> None:
    assert concluded["interrupt hangs"]["findings"] == [["interrupted", "stopped by you"]]


def test_a_process_seen_to_be_stopped_explains_a_limit_that_is_over(concluded: dict[str, dict[str, Any]]) -> None:
    ((rule, summary), *_) = concluded["limit-stopped ends"]["findings"]
    assert (rule, "GCS" in summary, "is stopped" in summary) == ("cluster-lost", True, True)


def test_a_head_that_runs_explains_none(concluded: dict[str, dict[str, Any]]) -> None:
    assert concluded["limit ends"]["findings"] == [["time-limit", "it is over"]]


def test_a_signal_that_somebody_sent_to_the_driver_ended_the_run(concluded: dict[str, dict[str, Any]]) -> None:
    assert concluded["signal ends"]["findings"] == [["interrupted", "it is over"]]


def test_node_actors_that_outlive_a_killed_driver_are_ended_and_those_left_warm_are_not(
    concluded: dict[str, dict[str, Any]],
) -> None:
    assert concluded["warm dies"]["farewells"] == [["192.0.2.1:6379", "raybench-warm", 2]]
    assert concluded["warm ends"]["farewells"] == []


@pytest.mark.parametrize("leaving", ["dies", "ends"])
def test_the_guard_knows_of_node_actors_that_outlive_the_driver_until_it_is_through(
    concluded: dict[str, dict[str, Any]], leaving: str
) -> None:
    assert concluded[f"warm {leaving}"]["guard"] == [["192.0.2.1:6379", "raybench-warm", 2], []]


@pytest.mark.parametrize("case", FINE)
def test_nobody_is_accused_of_a_run_that_was_brought_home(concluded: dict[str, dict[str, Any]], case: str) -> None:
    assert concluded[case]["findings"] == []


def test_a_message_that_cannot_be_read_keeps_the_run_from_being_complete_and_loses_no_other(
    concluded: dict[str, dict[str, Any]],
) -> None:
    found = concluded["unreadable ends"]
    ((rule, summary),) = found["findings"]
    assert (rule, "cannot be read" in summary) == ("driver-lost", True)
    assert found["logs"] == ["nccl-rank-0.log"]
