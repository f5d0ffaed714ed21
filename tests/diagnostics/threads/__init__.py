"""Logs of public threads, with what was wrong in each: ``python -m tests.diagnostics.threads [file]`` scores them.

Each log was labelled from its thread before any diagnosis of it was seen. Hosts, addresses and process ids are changed,
and what does not matter is left out; the messages are NCCL's. A case begins with ``=== name | thread | outcome |
findings | network | gdr | tcp_fallback``: commas separate answers that are all right, ``-`` is none. The findings of a
failed run are its possible causes, one of which must be found and stand on top; a healthy one may be warned of its own.

Scores at first sight, before anything was mended: ``first.txt`` (60 failed, 11 healthy) facts 205 of 213, causes 59 and
top finding 59 of 60, 3 failed runs not critical, no false alarm; ``second.txt`` (16 failed, 4 healthy), after the
first was mended: facts 60 of 60, causes and top finding 14 of 16, 2 failed runs not critical, no false alarm;
``third.txt`` (5 failed, 3 healthy, of sources far from the others): facts 24 of 24, causes and top finding 3 of 5,
2 failed runs not critical, 1 false alarm. ``fourth.txt`` (47 failed, 12 healthy): facts 175 of 177, causes 38 and top
finding 37 of 47, 7 failed runs not critical, 2 false alarms; with what frameworks and launchers say, written before it
was read, causes and top finding 42 of 47, 4 not critical. One label was changed after that, its tcp_fallback of
``sockets-of-two-pods``: nothing in that log tells of RDMA. ``sixth.txt`` keeps some of 116 failed and
13 healthy logs, a dozen of them put together from a thread's words: causes 97 and top finding 96 of 116, 14 not
critical, no false alarm; most of the misses were of MPI, UCX, PMIx, PyTorch before 1.8 and text-generation-inference.
``seventh.txt`` keeps all but one of 28 failed and 4 healthy logs, a few of them put together from a thread's words:
facts 95 of 96, causes 28 and top finding 27 of 28, 1 not critical (the one that is left out, a silent hang of which the
log shows the warned cause), no false alarm. The name of a plugin was wrong in a label, and one aborted communicator
was called a lost peer. 10 more failed logs at its end, after that was mended: facts 30 of 30, causes 10 and top
finding 9 of 10 (memory of no real size, asked for after a timeout), all critical.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from diagnostics.findings import Diagnosis
from diagnostics.inputs.reader import Batch
from diagnostics.reading import Reading

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadLog:
    """A log and its label."""

    name: str
    thread: str
    failed: bool
    findings: tuple[str, ...]
    networks: tuple[str, ...]
    gdr: tuple[bool | None, ...]
    tcp_fallback: tuple[bool | None, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What is wrong with the diagnosis of one log."""

    facts: tuple[str, ...]
    cause_missed: bool = False
    other_on_top: bool = False
    failure_missed: bool = False
    false_alarms: tuple[str, ...] = ()

    @property
    def problems(self) -> list[str]:
        """All of it, in words."""
        told = list(self.facts)
        told += ["cause missed"] if self.cause_missed else []
        told += ["another finding on top"] if self.other_on_top else []
        told += ["FAILED RUN NOT CRITICAL"] if self.failure_missed else []
        return told + [f"false alarm {rule}" for rule in self.false_alarms]


def read_logs(file: Path) -> Iterator[ThreadLog]:
    """The logs of a file."""
    for part in file.read_text(encoding="utf-8").split("=== ")[1:]:
        head, _, text = part.partition("\n")
        name, thread, outcome, findings, networks, gdr, fallback = head.split(" | ")
        yield ThreadLog(
            name=name,
            thread=thread,
            failed=outcome == "failed",
            findings=tuple(findings.split(",")),
            networks=tuple(networks.split(",")),
            gdr=tuple(json.loads(value) for value in gdr.split(",")),
            tcp_fallback=tuple(json.loads(value) for value in fallback.split(",")),
            text=text,
        )


def diagnose(text: str) -> Diagnosis:
    """The diagnosis of one file with this text."""
    reading = Reading()
    reading.feed(Batch(file="a.log", block=text.encode(), first=True))
    reading.flush()
    return reading.diagnosis()


def score(log: ThreadLog, diagnosis: Diagnosis) -> Score:
    """A diagnosis against its label."""
    network = "none/unknown" if diagnosis.network in ("none", "unknown") else diagnosis.network
    facts = (
        ("network", network, log.networks),
        ("gdr", diagnosis.gdr, log.gdr),
        ("tcp_fallback", diagnosis.tcp_fallback, log.tcp_fallback),
    )
    wrong = tuple(f"{name} is {seen}, not {wanted[0]}" for name, seen, wanted in facts if seen not in wanted)
    rules = [finding.rule for finding in diagnosis.findings]
    alarms = [f.rule for f in diagnosis.findings if f.severity != "info" and f.rule not in log.findings]
    if not log.failed:
        return Score(facts=wrong, false_alarms=tuple(alarms))
    return Score(
        facts=wrong,
        cause_missed=not set(log.findings) & set(rules),
        other_on_top=not rules or rules[0] not in log.findings,
        failure_missed=diagnosis.verdict != "critical",
    )
