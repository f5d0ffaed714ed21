"""What is not brought home, traces that are too long and logs of nodes that do not answer: left out, and said."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from raybench.config import RunConfig
from raybench.execution.bring_home import bring_logs
from raybench.execution.node_actors import node_actor
from raybench.execution.node_actors.node_actor import NodeActor
from raybench.execution.omitted_traces import trace_findings
from raybench.execution.record import RunRecord


@pytest.fixture
def actor(monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeActor]:
    """A node actor whose ranks were there before; nobody listens where it looks for them."""
    monkeypatch.setattr(node_actor, "LONGEST_TRACE_BYTES", 100)
    monkeypatch.setattr(node_actor, "_IMPORT_SECONDS", 0.1)
    made = NodeActor(host_socket="/nowhere")
    made._log_limit_bytes = 10
    for name, size in (("trace-rank-0-ddp.7.pt.trace.json.gz", 100), ("trace-rank-12-fsdp.7.pt.trace.json.gz", 101)):
        (made._folder / name).write_bytes(b"x" * size)
    yield made
    made._release()


def test_a_trace_that_is_too_long_is_left_out_and_named(actor: NodeActor) -> None:
    assert list(actor.logs()) == ["trace-rank-0-ddp.7.pt.trace.json.gz"]
    assert actor.long_traces() == {"trace-rank-12-fsdp.7.pt.trace.json.gz": (101, 100)}
    (finding,) = trace_findings("node-1", actor.long_traces())
    assert (finding.rule, finding.severity, finding.ranks) == ("trace-left-out", "warning", (12,))


def test_the_finding_says_both_sizes_and_what_brings_it_home() -> None:
    (finding,) = trace_findings("node-1", {"trace-rank-3-ddp.7.pt.trace.json.gz": (99 * 2**20 + 1, 64 * 2**20)})
    assert finding.summary == (
        "trace-rank-3-ddp.7.pt.trace.json.gz of node-1 is not in logs/: it has 99.0 MiB, and at most 64.0 are kept"
    )
    assert finding.recommendations[0].commands == ("raybench train --profile --log-limit 100M",)


def test_a_higher_limit_brings_it_home(actor: NodeActor) -> None:
    actor._log_limit_bytes = 101
    assert list(actor.logs()) == ["trace-rank-0-ddp.7.pt.trace.json.gz", "trace-rank-12-fsdp.7.pt.trace.json.gz"]
    assert list(trace_findings("node-1", actor.long_traces())) == []


@pytest.mark.parametrize("killed", [True, False])
def test_logs_that_could_not_be_fetched_keep_a_run_from_being_fine(killed: bool) -> None:
    """The node actor of the second node has gone by the time the logs are fetched, or not."""

    class NodeActors:
        handles = tuple(SimpleNamespace(node=SimpleNamespace(name=name)) for name in ("node-1", "node-2"))

        def ask(self, *_: object) -> tuple[dict[int, dict[str, bytes]], dict[int, str]]:
            logs: dict[int, dict[str, bytes]] = {0: {}, 1: {}}
            return ({0: {}}, {1: "ActorDiedError: it died"}) if killed else (logs, {})

    planned: Any = SimpleNamespace(plan=SimpleNamespace(ranks_of=lambda index: (index,)), specs=())
    record = RunRecord(config=RunConfig(), run_id="a", planned=planned)
    channel: Any = SimpleNamespace(mark=lambda *_: None, note=lambda _: None, logs=lambda _: None)
    actors: Any = NodeActors()
    bring_logs(actors, record, channel)
    found = [(one.rule, one.severity, one.hosts, one.ranks) for one in record.findings]
    assert found == ([("logs-lost", "warning", ("node-2",), (1,))] if killed else [])
