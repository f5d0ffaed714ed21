"""What must be true of a command that ended after a fault: in time, the right exit code and culprit, nothing left."""

import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.faults.chaos.outcome import STACK_TRACE
from tests.faults.commands import WORKLOADS
from tests.faults.plan import PHASES, Fault
from tests.faults.plant import Ending

_GRACE_SECONDS = 15.0  # over the time limit of the command
_WHOLE_SECONDS = 120.0  # for a short command that nothing ends


def complaints(fault: Fault, ending: Ending) -> list[str]:
    """What is wrong with how the command ended; nothing if all is well."""
    return [*_how_it_ended(fault, ending), *_what_it_left(ending), *_what_it_said(fault, ending)]


def _how_it_ended(fault: Fault, ending: Ending) -> Iterator[str]:
    if ending.status is None:
        yield "HANG: it did not end"
        return
    workload = WORKLOADS[fault.workload]
    launches = workload.launches if fault.target == "output" else 1  # what cannot be kept there ends no launch
    limit = launches * workload.timeout_seconds + _GRACE_SECONDS
    limit += 0 if fault.target == "command" else workload.other_seconds
    if fault.harmless:
        limit = _WHOLE_SECONDS
    if ending.seconds > limit:
        yield f"LATE: {ending.seconds:.0f} s after the fault, limit {limit:.0f} s"
    allowed = _allowed(fault, ending)
    if ending.status not in allowed:
        yield f"EXIT: {ending.status}, expected {' or '.join(map(str, sorted(allowed)))}"


def _allowed(fault: Fault, ending: Ending) -> set[int]:
    if fault.target == "command" and fault.action == "SIGKILL":
        return {-signal.SIGKILL, 0} if fault.phase == "ending" else {-signal.SIGKILL}
    if fault.harmless:
        return {0}
    if fault.target == "gcs" and "no Ray cluster answers at" in ending.text:
        return {2}  # it was to be joined, and ended before that: the same as a wrong address
    done = fault.phase == "ending" and all(_complete(one) for one in ending.documents) and ending.documents
    return {0, 3} if done or (_may_do_no_harm(fault) and everything_measured(fault, ending.documents)) else {3}


def _may_do_no_harm(fault: Fault) -> bool:
    """Whether the command may come to its end all the same.

    Ranks that are placed need no GCS, and no raylet that stands still: these place, and say who is alive. A command
    that is through before such a daemon counts as lost (10 s) has measured what it was asked for. Its figures are as
    good as any, so it is complete, and 0 is right; one that still measures by then ends with 3. But 0 has to be proved.
    """
    is_placed = PHASES.index(fault.phase) >= PHASES.index("placing")
    return is_placed and fault.action == "SIGSTOP" and fault.target.partition(" ")[0] in ("gcs", "raylet")


def everything_measured(fault: Fault, documents: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the samples prove it, and not only a status: each step that the command asked for, of each trial.

    Only trainings say how many steps there should be, so nothing is proved of others.
    """
    words = WORKLOADS[fault.workload].long
    asked = int(words[words.index("--steps") + 1]) if "--steps" in words else 0
    results = [one for one in documents if "benchmarks" in one]
    studies = [one for one in documents if "trials" in one]
    wanted = {one["run"] for study in studies for one in study["trials"]}
    planned = sum(len(block) for study in studies for block in study["order"])
    return (
        bool(results)
        and len(results) + len(studies) == len(documents)
        and all(_complete(one) for one in documents)
        and all(_has_all_steps(one, asked) for one in results)
        and len(studies) == WORKLOADS[fault.workload].is_study
        and (not studies or (len(results) == planned and {one["run_id"] for one in results} == wanted))
    )


def _has_all_steps(result: Mapping[str, Any], asked: int) -> bool:
    points = [point for benchmark in result["benchmarks"] for point in benchmark["points"]]
    return bool(points) and all(asked == len(one["samples_seconds"]) > 0 and one["verified"] is True for one in points)


def _complete(document: Mapping[str, Any]) -> bool:
    return document.get("status") == "complete"


def _what_it_left(ending: Ending) -> Iterator[str]:
    if ending.left_processes:
        yield f"LEFT: {len(ending.left_processes)} processes: {ending.left_processes[0]}"
    if ending.left_files:
        yield f"LEFT: {', '.join(ending.left_files[:3])} in the temporary folder"


def _what_it_said(fault: Fault, ending: Ending) -> Iterator[str]:
    if STACK_TRACE.search(ending.text):
        yield "TRACE: a stack trace reached the user"
    if any("torn" in document for document in ending.documents):
        yield "TORN: a document is no JSON"
    killed = fault.target == "command" and fault.action == "SIGKILL"
    if ending.status is None or killed or fault.harmless or ending.status == 0:
        return
    if ending.samples_kept and not ending.documents and fault.target != "output":
        yield "RESULT: there are samples and no result"
    elif not names_culprit(fault, ending):
        yield f"CULPRIT: {fault.target} is not named: {_said(ending)}"


def _findings(ending: Ending) -> list[Mapping[str, Any]]:
    return [finding for one in ending.documents for finding in one.get("findings", ())[:1]]


def _said(ending: Ending) -> str:
    found = [str(one.get("summary")) for one in _findings(ending)]
    return "; ".join(found)[:300] if found else " ".join(ending.text.split())[-300:]


def names_culprit(fault: Fault, ending: Ending) -> bool:
    """Whether the first finding of a result, or where there is none what was printed, names the fault's target."""
    findings = _findings(ending)
    part, _, number = fault.target.partition(" ")
    words = " ".join(str(one.get("summary", "")) for one in findings) if findings else ending.text
    if fault.target == "command":
        return any(one.get("rule") == "interrupted" for one in findings) or bool(
            re.search(r"\bstopped\b|interrupt|SIG(INT|TERM|HUP)", words, re.IGNORECASE)
        )
    if part == "output":
        return re.search(r"No space left|No such file|could not be written|has been removed", ending.text) is not None
    if part == "rank":
        named = any(one.get("ranks") == [int(number)] for one in findings)
        return named or (not findings and re.search(rf"\brank {number}\b", words) is not None)
    if part in ("raylet", "node_actor"):
        node = f"node-{number}"
        if any(one.get("hosts") == [node] for one in findings):
            return True
        return re.search(rf"{node}\b", words) is not None and not _blames_another(findings, node)
    pattern = {"gcs": r"\bGCS\b|\bhead\b", "rank_host": r"rank host", "driver": r"\bdriver\b"}[part]
    return re.search(pattern, words) is not None


def _blames_another(findings: list[Mapping[str, Any]], node: str) -> bool:
    return any(host != node for one in findings for host in one.get("hosts", ()))
