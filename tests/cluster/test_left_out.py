"""Traces that are too long to be brought home: left out whole, and said."""

from collections.abc import Iterator

import pytest

from raybench.cluster import node
from raybench.cluster.left_out import trace_findings
from raybench.cluster.node import NodeAgent


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeAgent]:
    """An agent of a node, whose ranks were there before; nobody listens where it looks for them."""
    monkeypatch.setattr(node, "LONGEST_TRACE_BYTES", 100)
    monkeypatch.setattr(node, "_IMPORT_SECONDS", 0.1)
    made = NodeAgent(host_socket="/nowhere")
    made._log_limit_bytes = 10
    for name, size in (("trace-rank-0-ddp.7.pt.trace.json.gz", 100), ("trace-rank-12-fsdp.7.pt.trace.json.gz", 101)):
        (made._folder / name).write_bytes(b"x" * size)
    yield made
    made._release()


def test_a_trace_that_is_too_long_is_left_out_and_named(agent: NodeAgent) -> None:
    assert list(agent.logs()) == ["trace-rank-0-ddp.7.pt.trace.json.gz"]
    assert agent.long_traces() == {"trace-rank-12-fsdp.7.pt.trace.json.gz": (101, 100)}
    (finding,) = trace_findings("node-1", agent.long_traces())
    assert (finding["rule"], finding["severity"], finding["ranks"]) == ("trace-left-out", "warning", [12])


def test_the_finding_says_both_sizes_and_what_brings_it_home() -> None:
    (finding,) = trace_findings("node-1", {"trace-rank-3-ddp.7.pt.trace.json.gz": (99 * 2**20 + 1, 64 * 2**20)})
    assert finding["summary"] == (
        "trace-rank-3-ddp.7.pt.trace.json.gz of node-1 is not in logs/: it has 99.0 MiB, and at most 64.0 are kept"
    )
    assert finding["recommendations"][0]["commands"] == ["raybench train --profile --log-limit 100M"]


def test_a_higher_limit_brings_it_home(agent: NodeAgent) -> None:
    agent._log_limit_bytes = 101
    assert list(agent.logs()) == ["trace-rank-0-ddp.7.pt.trace.json.gz", "trace-rank-12-fsdp.7.pt.trace.json.gz"]
    assert list(trace_findings("node-1", agent.long_traces())) == []
