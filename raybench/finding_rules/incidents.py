"""What ends a run before its time: one rule a kind of incident.

``collective-mismatch`` and ``init-hang`` stand with the rules of logs, which show the same faults.
"""

from collections.abc import Mapping

from diagnostics.finding_rule import FindingRule
from raybench.finding_rules.rule import MeasuredRule, advice

SHARED_WITH_LOGS = ("collective-mismatch", "init-hang")
_SEEN = "Source: what raybench sees of its processes, ranks and nodes while it runs."


def _incident(rule_id: str, title: str, text: str, what_to_do: str, *, severity: str = "critical") -> MeasuredRule:
    page = f"{text.strip()}\n\n{_SEEN}"
    return MeasuredRule(id=rule_id, title=title, severity=severity, text=page, recommended=advice(rule_id, what_to_do))


RULES = (
    _incident(
        "rank-stopped",
        "A rank's process is stopped",
        """
The process of a rank does not run: somebody stopped it.

Symptom: the process is in state T (SIGSTOP, or a debugger), and the other ranks wait for it.

Why: a debugger, a batch system that suspends jobs, a SIGSTOP.

Not when: the process runs and is slow, or waits in the kernel: that is rank-behind.
""",
        "Continue the process with SIGCONT, or end it, and run again.",
    ),
    _incident(
        "rank-died",
        "A rank's process has ended",
        """
The process of a rank was killed, or ended without a word.

Symptom: the process ends before its plan does, and no exception came from it.

Why: the kernel killed it when memory ran out, a crash in a library, a kill from outside.

Not when: the rank reported an exception (rank-failed), or its node does not answer (node-lost).
""",
        "Look at the end of the rank's output in logs/ and at `dmesg` of its node, which shows kills and GPU errors.",
    ),
    _incident(
        "rank-failed",
        "A rank raised an exception",
        """
A rank ended with an exception that is not about a connection.

Symptom: the first line of the exception is in the finding, the whole of it in logs/.

Why: as the exception says: memory, a library that is missing, a file, an invalid value.

Not when: the exception is about a connection: that is connection-lost, mostly the death of another rank.
""",
        "Read the exception, and the rank's output in logs/.",
    ),
    _incident(
        "rank-behind",
        "The others wait for one rank",
        """
Nothing moves, and a rank has done less than the others, which wait for it.

Symptom: at the time limit a rank is at an earlier step, or is in no operation while the others wait in one. The finding
quotes the line of its source, or the kernel function, in which it is.

Why: the rank waits for something else: a file system, a lock, a device, a slow GPU.

Not when: its process is stopped (rank-stopped) or has ended (rank-died); most ranks are behind.
""",
        "Look at what that rank does: its line is quoted, logs/activity.txt has all of it.",
    ),
    _incident(
        "collective-stuck",
        "All ranks wait in one operation",
        """
All ranks are inside one operation, nobody is missing, and nothing moves.

Symptom: at the time limit every rank waits in the same collective, and has not moved for longer than its steps took.

Why: the network or the communication library is stuck: a link that went down, a firewall between some of the ports, a
fault of the library.

Not when: a rank is elsewhere (rank-behind), or the operations do not fit together (collective-mismatch).
""",
        "Read what the NCCL logs say in logs/, and check the links of the nodes (`raybench preflight`).",
    ),
    _incident(
        "time-limit",
        "A benchmark was not done in its time",
        """
The time limit of a benchmark was over, and no rank stands out.

Symptom: the benchmark was still moving, or nothing could be told of its ranks, when --timeout was over.

Why: too many sizes or iterations for the limit, or a slow network.

Not when: a rank or a node is seen to be at fault: then that is named.
""",
        "Raise --timeout, or ask for fewer sizes or iterations.",
    ),
    _incident(
        "connection-lost",
        "A rank lost its connection",
        """
A rank reported an exception about a connection, and nothing else is known to have failed.

Symptom: `connection reset by peer`, `NCCL remote error` and the like.

Why: most often another rank has ended, which is seen from here. Else the network between the two.

Not when: a rank, a node or a process is seen to be at fault: this is then among its consequences.
""",
        "Look for the rank or node that ended first, in logs/ and in `dmesg` of the nodes.",
    ),
    _incident(
        "node-lost",
        "A node does not answer",
        """
The node actor does not answer any more, or never did.

Symptom: no answer for 10 s, while the head of the cluster answers.

Why: the machine went down, rebooted or is cut off, its Ray daemon ended or is stopped.

Not when: only its rank host is lost (rank-host-lost), or the head is (cluster-lost).
""",
        "Check that the node is up, since when (`uptime -s`: it may have rebooted), and that Ray runs there (`ray "
        "status`; `raybench cluster status` says who rebooted), then run again.",
    ),
    _incident(
        "rank-host-lost",
        "The process that holds a node's ranks is lost",
        """
The process that forked the ranks of a node is stopped, or has ended.

Symptom: the node's actor answers, and its rank host does not.

Why: it was killed (the kernel does, when memory runs out), stopped or crashed.

Not when: the whole node does not answer: that is node-lost.
""",
        "Look at `dmesg` of the node: it shows whether the kernel ended the process when memory ran out.",
    ),
    _incident(
        "driver-lost",
        "The process of raybench that talks to Ray is lost",
        """
The driver of the run is stopped, or has ended.

Symptom: the driver ended without a word, or beats no more. What was measured until then is kept.

Why: it was killed, stopped, or crashed in Ray's library.

Not when: the head does not answer, for which the driver waits: that is cluster-lost.
""",
        "Look at `dmesg` of this machine, and run again.",
    ),
    _incident(
        "cluster-lost",
        "The Ray cluster does not answer",
        """
The head of the Ray cluster, or Ray itself, does not answer any more.

Symptom: the head takes no connection, or takes it and says nothing; a call into Ray ends with an error.

Why: the head's machine or its daemons went down, or are stopped.

Not when: a single node does not answer: that is node-lost.
""",
        "Check the head of the cluster (`raybench cluster status`, `ray status`), then run again.",
    ),
    _incident(
        "interrupted",
        "The run was stopped by its user",
        """
Ctrl-C or SIGTERM ended the run. What was measured until then is kept.

Symptom: the command got the signal.

Why: somebody, or a batch system, stopped it.

Not when: something else had broken the run before: then that is the finding.
""",
        "Run again for what is missing.",
        severity="info",
    ),
)
_OWN: Mapping[str, FindingRule] = {rule.id: rule for rule in RULES}


def incident_rule(kind: str) -> FindingRule:
    """The rule that an incident of a kind is a finding of. Raises UnknownRuleError."""
    from diagnostics.rules import rule_named  # which brings the parsers of logs

    return _OWN.get(kind) or rule_named(kind)
