"""What the command takes from an agent's lines: findings of its own machine, few of a kind, and nothing else."""

import json
from dataclasses import replace

import pytest
from msgspec.structs import replace as changed

from diagnostics.agent.messages import Reading, Source, Warned, encode
from diagnostics.findings import Finding
from raybench.execution.live.agents import HeardAgent
from raybench.execution.live.told_warnings import MOST_SHOWN, ToldWarnings
from raybench.execution.live.warning import LiveWarning

FINDING = Finding(
    rule="port-errors",
    severity="warning",
    confidence="certain",
    summary="gpu-1 mlx5_3: symbol errors grow",
    explanation="By 4100 in 2 s.",
    hosts=("gpu-1",),
)


def agent() -> HeardAgent:
    return HeardAgent(machine="gpu-1", nodes=["gpu-1"], ranks=frozenset({0, 1}), started=1000.0)


def line(finding: Finding, since: float = 48.0) -> bytes:
    return encode(Warned(monotonic_seconds=50.0, since_seconds=since, finding=finding)).encode() + b"\n"


def test_a_warning_is_told_with_the_time_at_which_its_cause_began() -> None:
    heard = agent()
    _, (told,) = heard.take(line(FINDING), 1007.5)
    assert (told.at_seconds, told.since_seconds, told.of) == (7.5, 5.5, "agent")
    assert told.line == "WARNING: gpu-1 mlx5_3: symbol errors grow"
    assert heard.findings == [FINDING]


def test_a_line_in_two_pieces_is_one_message() -> None:
    heard, data = agent(), line(FINDING)
    assert heard.take(data[:70], 1001.0) == ([], [])
    assert len(heard.take(data[70:], 1002.0)[1]) == 1


def test_a_machine_accuses_nobody_but_itself() -> None:
    heard = agent()
    _, (told,) = heard.take(line(replace(FINDING, hosts=("gpu-2",), ranks=(0, 7))), 1001.0)
    assert (told.hosts, told.ranks) == (("gpu-1",), (0,))


def test_a_warning_from_before_the_run_or_the_future_keeps_a_time_of_the_run() -> None:
    for since in (-1e9, 1e9):
        _, (told,) = agent().take(line(FINDING, since), 1003.0)
        assert 0.0 <= told.since_seconds <= told.at_seconds == 3.0


def test_of_one_rule_so_many_are_told_and_others_still_are() -> None:
    heard = agent()
    told = [one for _ in range(500) for one in heard.take(line(FINDING), 1001.0)[1]]
    told += heard.take(line(replace(FINDING, rule="link-down")), 1001.0)[1]
    assert len(told) == 21
    assert told[-1].rule == "link-down"
    assert len(heard.findings) == 21


def test_what_is_no_message_is_left_out_and_the_rest_is_taken() -> None:
    heard = agent()
    reading = Reading(monotonic_seconds=1.0, source="host", values={"host/cpu/busy_seconds": 3.0})
    hostile = [
        b"\xff\xfe\n",
        b'{"kind": "warning", "finding": 7}\n',
        b"[" * 10_000 + b"\n",
        json.dumps({"kind": "reading", "monotonic_seconds": 1, "source": "x", "values": {"a": 1e400}}).encode() + b"\n",
        b"x" * (3 << 20) + b"\n",
    ]
    messages, told = heard.take(b"".join(hostile) + encode(reading).encode() + b"\n", 1001.0)
    assert reading in messages
    assert told == []
    assert heard.findings == []


def test_an_agent_that_does_not_start_is_one_line_that_fails_nothing() -> None:
    heard = agent()
    missing = Source(monotonic_seconds=1.0, name="agent", available=False, reason="it ended with status 1")
    for _ in range(3):
        heard.take(encode(missing).encode() + b"\n", 1001.0)
    (finding,) = heard.findings
    assert (finding.rule, finding.severity) == ("agent-missing", "info")
    assert finding.summary == "no agent watched gpu-1: it ended with status 1"
    unreadable = Source(monotonic_seconds=1.0, name="ports", available=False, reason="no port")
    assert agent().take(encode(unreadable).encode() + b"\n", 1001.0)[1] == []


def test_a_node_that_makes_up_rules_is_heard_within_bounds() -> None:
    heard = agent()
    lines = b"".join(line(replace(FINDING, rule=f"rule-{number}")) for number in range(3000))
    assert len(heard.take(lines, 1001.0)[1]) == len(heard.findings) == 100
    assert len(heard._told) <= 100
    names = [f"nic/n{number}/sent_bytes" for number in range(4000)]
    for second in (1.0, 2.0):
        reading = Reading(monotonic_seconds=second, source="nics", values=dict.fromkeys(names, second))
        heard.take(encode(reading).encode() + b"\n", 1000.0 + second)
    assert 0 < len(heard.figures(1002.0)) <= 256


def test_figures_of_an_agent_that_has_fallen_silent_are_not_shown_as_those_of_now() -> None:
    heard = agent()
    reading = Reading(monotonic_seconds=1.0, source="gpus", values={"gpu/0/utilization_percent": 97})
    heard.take(encode(reading).encode() + b"\n", 1001.0)
    assert (heard.figures(1005.0), heard.silent_seconds(1005.0)) == ({"gpu 0 %": 97}, None)
    assert (heard.figures(1060.0), heard.silent_seconds(1060.0)) == ({}, 59.0)
    assert agent().silent_seconds(1060.0) is None, "one that has not spoken yet is none that fell silent"


def test_figures_of_a_source_that_hangs_are_not_kept_fresh_by_the_others() -> None:
    heard = agent()
    for second in range(1, 61):
        gpus = {"gpu/0/utilization_percent": 97} if second == 1 else {}
        reading = Reading(monotonic_seconds=second, source="x", values={"host/cpu/busy_seconds": 3 * second, **gpus})
        heard.take(encode(reading).encode() + b"\n", 1000.0 + second)
    assert heard.figures(1060.0) == {"host cpu processors busy": 3.0}
    assert heard.silent_seconds(1060.0) is None


def test_an_agent_that_falls_silent_or_never_speaks_while_ranks_do_is_missing() -> None:
    heard = agent()
    heard.take(encode(Reading(monotonic_seconds=1.0, source="host", values={})).encode() + b"\n", 1010.0)
    assert heard.missing(1002.0, 1024.0) is None
    found = heard.missing(1002.0, 1026.0)
    assert found is not None
    assert found.summary == "no agent watched gpu-1: it has said nothing since 10 s after the run's start"
    never = agent().missing(1002.0, 1018.0)
    assert never is not None
    assert (never.rule, never.severity) == ("agent-missing", "info")
    assert agent().missing(1002.0, 1010.0) is None, "a short run is over before anybody speaks"


def test_a_time_that_no_clock_shows_is_no_message() -> None:
    for at in (1e17, -1e17):
        sent = encode(Reading(monotonic_seconds=at, source="host", values={"host/load/one_minute": 1.0}))
        assert agent().take(sent.encode() + b"\n", 1001.0)[0] == []


@pytest.mark.parametrize(("broken", "told"), [(4, False), (5, True)])
def test_an_agent_that_is_understood_in_part_left_samples_out(broken: int, *, told: bool) -> None:
    """As one whose output another thread of it floods: of each of its writes the first line is lost."""
    one = agent()
    reading = encode(Reading(monotonic_seconds=1.0, source="host", values={})).encode()
    for number in range(broken):
        one.take(b"x" * 2**10 + reading + b"\n" + reading + b"\n", 1001.0 + number)
    missing = one.missing(1000.0, 1001.0 + broken)
    assert (missing is not None) == told
    if missing is not None:
        assert missing.summary == "what the agent of gpu-1 said could be read in part only: 5 x no JSON"


def test_of_a_thousand_warnings_of_one_rule_a_few_are_shown_and_others_as_ever() -> None:
    told = ToldWarnings()
    many = [warning("port-errors", f"node{number}: errors") for number in range(1000)]
    shown = [line for one in many if (line := told.line(one))]
    assert shown[:2] == ["WARNING: node0: errors", "WARNING: node1: errors"]
    assert shown[MOST_SHOWN:] == [f"{MOST_SHOWN} warnings of port-errors were shown; all of them are in warnings.jsonl"]
    assert told.line(warning("rank-stalled", "rank 3 stands still")) == "WARNING: rank 3 stands still"
    assert told.line(changed(warning("rank-stalled", "rank 3 goes on"), over=True)) == "rank 3 goes on"


def warning(rule: str, text: str) -> LiveWarning:
    return LiveWarning(at_seconds=1.0, since_seconds=1.0, rule=rule, severity="warning", text=text)
