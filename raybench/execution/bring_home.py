"""The ranks' logs and traces, brought from the nodes into the record; what is not brought home is said."""

from raybench.benchmarks.registry import workload_of
from raybench.execution.channel import Channel
from raybench.execution.log_files import logs_of
from raybench.execution.node_actors.node_actors import NodeActors
from raybench.execution.omitted_traces import lost_logs_finding, trace_findings
from raybench.execution.record import RunRecord

_LOG_SECONDS = 10.0
_TRACE_SECONDS = 3.0


def bring_logs(actors: NodeActors, record: RunRecord, channel: Channel) -> None:
    """Of every node that answers, what is of its own ranks. Of the others it is a warning that the logs are lost."""
    channel.mark("bringing the logs", _LOG_SECONDS + _TRACE_SECONDS, record)
    plan = record.need().plan
    with record.timed("logs"):
        answers, silent = actors.ask(_LOG_SECONDS, "logs")
    for index, found in sorted(answers.items()):
        own = logs_of(plan.ranks_of(index), found)
        record.logs |= own
        if len(own) < len(found):
            node = actors.handles[index].node.name
            channel.note(f"{len(found) - len(own)} logs of {node} are left out: they belong to no rank of that node")
    _tell_omitted_traces(actors, record, channel)
    for index, why in silent.items():
        record.findings.append(lost_logs_finding(actors.handles[index].node.name, plan.ranks_of(index), why))
        channel.note(f"WARNING: {record.findings[-1].summary}")
    channel.logs(record.logs)


def _tell_omitted_traces(actors: NodeActors, record: RunRecord, channel: Channel) -> None:
    if not any(workload_of(spec.kind).traces(spec) for spec in record.need().specs):
        return
    answers, _ = actors.ask(_TRACE_SECONDS, "long_traces")
    for index, omitted in sorted(answers.items()):
        for finding in trace_findings(actors.handles[index].node.name, omitted):
            record.findings.append(finding)
            channel.note(f"WARNING: {finding.summary}")
