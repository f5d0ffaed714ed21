"""What is seen of a run while it goes on, and ended before the run did."""

from raybench.finding_rules.rule import MeasuredRule, advice

RANK_STALLED = MeasuredRule(
    id="rank-stalled",
    title="A rank stood still while the run went on",
    severity="warning",
    text="""
A rank did nothing for a time, and the other ranks waited for it; then it went on, or the run ended otherwise.

Symptom: its process was stopped (state T), once or again and again, as some looks a second count; or it slept outside
of the collective that the others waited in, for longer than the run's own pace explains. `raybench run` says so within
seconds, and again when the rank moves.

Why: a debugger, a batch system that suspends jobs, a SIGSTOP; a lock, a slow file, a data loader that waits.

Not when: all ranks wait in one collective, however long it takes; a rank computes, compiles, or loses its processor to
others; a checkpoint is written.

Source: the marks that every rank makes of its steps and operations, and its process and stack when all stand still.
""",
    recommended=advice(
        "find-what-held-the-rank",
        "Look at what else happened on the node at that time, and at the line of code where one is quoted; measure "
        "again what was measured meanwhile.",
    ),
)
AGENT_MISSING = MeasuredRule(
    id="agent-missing",
    title="No agent watched a machine of the run",
    severity="info",
    text="""
The diagnostics agent of a machine did not start, ended before the run did, or said much that could not be read. The run
itself is whole.

Symptom: the process of the agent could not be started, or has ended; the finding quotes its last words. Or lines of it
were refused, with the reasons counted.

Why: a Python without the package `diagnostics`, a limit on processes, memory that ran out.

Not when: a source alone cannot be read (no GPU, no permission): the samples say so.

Source: the node actor, which starts the agent.
""",
    recommended=advice(
        "start-the-agent-by-hand", "Run `python -m diagnostics.agent` on the machine: it says what is wrong."
    ),
)
RULES = (RANK_STALLED, AGENT_MISSING)
