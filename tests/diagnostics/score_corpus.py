"""Scores the diagnosis on the labelled logs: ``python tests/diagnostics/score_corpus.py [corpus folder]``.

Beside network, GPUDirect RDMA and TCP fallback: causes found, the right finding on top, false alarms in healthy logs,
and failed runs that are called ok. The folder is the argument, or RAYBENCH_NCCL_CORPUS, or ``../shared/nccl/corpus``
beside the checkout. It is measured only; nothing of it is in this repository. Exit code 0 when every goal is met, 1
when not, 0 with a reason when there is no corpus.
"""

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnostics.engine import diagnose_paths
from diagnostics.findings import Diagnosis

CAUSES_GOAL = 0.95
TOP_GOAL = 0.95

# a label's root cause in plain words -> rules that say it; an empty set: outside of what a log can show
CAUSES: Mapping[str, frozenset[str]] = {
    "gdr-not-used-cause-not-in-log": frozenset({"gdr-missing"}),
    "ib-devices-not-openable-in-container": frozenset({"rdma-device-not-openable"}),
    "ib-devices-not-openable-permission": frozenset({"rdma-device-not-openable"}),
    "multi-node-over-socket-intent-unknown": frozenset({"tcp-fallback"}),
    "omni-path-verbs-no-gdr": frozenset({"gdr-missing"}),
    "custom-topo-file-degrades-paths": frozenset({"topology-degraded"}),
    "gid-table-change-event": frozenset({"ib-async-event"}),
    "ib-fabric-not-connected-between-nodes": frozenset({"ib-retry-exceeded"}),
    "ib-retry-exceeded": frozenset({"ib-retry-exceeded"}),
    "fabric-problem": frozenset({"ib-retry-exceeded"}),
    "single-rank": frozenset({"single-rank-jobs"}),
    "mpirun-env-not-forwarded": frozenset({"ranks-disagree-on-transport", "env-inconsistent"}),
    "ranks-disagree-on-transport": frozenset({"ranks-disagree-on-transport"}),
    "gdr-disabled-by-plugin-hmem": frozenset({"gdr-disabled-by-plugin"}),
    "nic-count-mismatch-across-nodes": frozenset({"nic-count-mismatch"}),
    "ib-port-down": frozenset({"ib-port-down", "nic-count-mismatch"}),  # the port that is down is seen by its absence
    "net-plugin-ucx-memory-registration-failed": frozenset({"net-plugin-broken", "memory-registration-failed"}),
    "shm-too-small": frozenset({"shm-too-small"}),
    "bootstrap-no-interface": frozenset({"no-socket-interface"}),
    "wrong-nccl-socket-ifname": frozenset({"no-socket-interface"}),
    "deliberate-tcp": frozenset({"rdma-disabled-by-env"}),
    "tcp-fallback": frozenset({"tcp-fallback"}),
    "fewer-efa-nics-than-platform": frozenset({"nic-count-mismatch"}),
    "duplicate-gpu": frozenset({"duplicate-gpu"}),
    "gpu-out-of-memory": frozenset({"gpu-out-of-memory"}),
    "memlock-limit": frozenset({"memlock-limit"}),
    "pods-have-different-host-identity": frozenset({"host-identity-mismatch"}),
    "nvlink-not-used-across-pods": frozenset({"host-identity-mismatch"}),
    "collective-mismatch-desync": frozenset({"collective-mismatch", "watchdog-timeout", "straggler"}),
    "application-error": frozenset({"application-error"}),
    "wrong-interface": frozenset({"wrong-interface"}),
    "libibverbs-missing": frozenset({"libibverbs-missing"}),
    "peer-connect-failed": frozenset({"bootstrap-unreachable", "peer-died"}),
    "ib-qp-fatal-async-event": frozenset({"ib-async-event"}),
    "gdr-level-lowered": frozenset({"gdr-level-lowered"}),
    "no-route-to-peer": frozenset({"wrong-interface", "bootstrap-unreachable"}),
    "qp-rtr-enetunreach": frozenset({"ib-connect-failed", "roce-gid-invalid"}),
    "memory-registration-failed": frozenset({"memory-registration-failed"}),
    "mpi-not-enabled-each-rank-alone": frozenset({"single-rank-jobs"}),
    "mismatched-binaries-between-nodes": frozenset({"version-mismatch"}),
    "cuda-call-failed": frozenset({"cuda-error"}),
    "bootstrap-mismatch": frozenset({"bootstrap-mismatch"}),
    "nccl-net-forced": frozenset({"net-plugin-missing", "rdma-device-missing"}),
    "ib-and-roce-hcas-mixed": frozenset({"hca-mixed-link-layers"}),
}
# causes of which the run does not die
WORKS = frozenset(
    {
        "none-healthy",
        "gdr-not-used-cause-not-in-log",
        "ib-devices-not-openable-in-container",
        "ib-devices-not-openable-permission",
        "multi-node-over-socket-intent-unknown",
        "omni-path-verbs-no-gdr",
        "custom-topo-file-degrades-paths",
        "gid-table-change-event",
        "single-rank",
        "gdr-disabled-by-plugin-hmem",
        "nic-count-mismatch-across-nodes",
        "ib-port-down",
        "deliberate-tcp",
        "tcp-fallback",
        "fewer-efa-nics-than-platform",
        "pods-have-different-host-identity",
        "nvlink-not-used-across-pods",
        "libibverbs-missing",
        "gdr-level-lowered",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How one log was judged. ``causes`` maps each labelled cause to whether it was found."""

    id: str
    seconds: float
    wrong: tuple[str, ...]
    causes: Mapping[str, bool]
    false_alarms: tuple[str, ...]
    top: bool | None  # whether the first finding is one of the causes; None for healthy logs
    passed: bool  # a run that failed, and is called ok or warned about only


def find_corpus(argument: str | None = None) -> Path | None:
    """The corpus folder; None where there is none."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "nccl" / "corpus"
    folder = Path(argument or os.environ.get("RAYBENCH_NCCL_CORPUS") or beside)
    return folder if (folder / "labels.jsonl").is_file() else None


def score_corpus(folder: Path) -> Iterator[Score]:
    """The score of every labelled log."""
    for line in (folder / "labels.jsonl").read_text(encoding="utf-8").splitlines():
        label = json.loads(line)
        started = time.perf_counter()
        diagnosis = diagnose_paths([folder / "cases" / f"{label['id']}.log"])
        yield score(label, diagnosis, time.perf_counter() - started)


def score(label: Mapping[str, Any], diagnosis: Diagnosis, seconds: float) -> Score:
    """One diagnosis against its label."""
    network = "none/unknown" if diagnosis.network in ("unknown", "none") else diagnosis.network
    pairs = (
        ("network", network, label["network"]),
        ("gdr", diagnosis.gdr, label["gdr"]),
        ("tcp_fallback", diagnosis.tcp_fallback, label["tcp_fallback"]),
    )
    rules = {finding.rule for finding in diagnosis.findings}
    causes = [cause for cause in label["root_causes"] if cause != "none-healthy"]
    alarms = [finding.rule for finding in diagnosis.findings if finding.severity != "info"]
    return Score(
        id=label["id"],
        seconds=seconds,
        wrong=tuple(f"{name} is {seen}, labelled {wanted}" for name, seen, wanted in pairs if seen != wanted),
        causes={cause: bool(CAUSES[cause] & rules) for cause in causes},
        false_alarms=tuple(alarms) if label["root_causes"] == ["none-healthy"] else (),
        top=_top(causes, diagnosis),
        passed=not WORKS.issuperset(causes) and diagnosis.verdict != "critical",
    )


def _top(causes: Sequence[str], diagnosis: Diagnosis) -> bool | None:
    if not causes:
        return None
    return bool(diagnosis.findings) and any(diagnosis.findings[0].rule in CAUSES[cause] for cause in causes)


def main() -> int:
    """Print the score; 1 when a goal is missed."""
    folder = find_corpus(sys.argv[1] if len(sys.argv) > 1 else None)
    if folder is None:
        print("no corpus: give its folder as argument or in RAYBENCH_NCCL_CORPUS; nothing was scored")
        return 0
    scores = list(score_corpus(folder))
    for one in scores:
        missed = [f"missed cause: {cause}" for cause, hit in one.causes.items() if not hit]
        problems = [*one.wrong, *missed, *(f"false alarm: {rule}" for rule in one.false_alarms)]
        problems += ["another finding is on top"] if one.top is False else []
        problems += ["FAILED RUN NOT CRITICAL"] if one.passed else []
        if problems:
            print(f"{one.id}: {'; '.join(problems)}")
    for name in ("network", "gdr", "tcp_fallback"):
        right = sum(not any(text.startswith(name) for text in one.wrong) for one in scores)
        print(f"{name:13s} {right} of {len(scores)} right")
    causes = [hit for one in scores for hit in one.causes.values()]
    print(
        f"causes        {sum(causes)} of {len(causes)} found ({sum(causes) / len(causes):.1%}, goal {CAUSES_GOAL:.0%})"
    )
    tops = [one.top for one in scores if one.top is not None]
    print(f"top finding   {sum(tops)} of {len(tops)} right ({sum(tops) / len(tops):.1%}, goal {TOP_GOAL:.0%})")
    passed = sum(one.passed for one in scores)
    print(f"failed runs   {passed} that are not called critical")
    alarms = sum(bool(one.false_alarms) for one in scores)
    print(f"false alarms  {alarms} healthy logs with a warning or worse")
    print(f"time          {sum(one.seconds for one in scores):.2f} s for {len(scores)} logs")
    wrong = any(one.wrong for one in scores)
    return (
        1
        if wrong or alarms or passed or sum(tops) < TOP_GOAL * len(tops) or sum(causes) < CAUSES_GOAL * len(causes)
        else 0
    )


if __name__ == "__main__":
    sys.exit(main())
