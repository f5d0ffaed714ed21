"""What Slurm is told: only by the verdict, only what raybench drained is resumed, and never too many at once."""

import shlex
from dataclasses import replace

import pytest

from raybench.cli.nodes.options import action_lines
from raybench.documents.node_actions import NodeActions
from raybench.errors import IncompleteRunError, UsageError
from raybench.nodes.intent import Policy, intents_of, limit_of
from raybench.nodes.mark import is_marked, marked
from raybench.nodes.slurm import planned, read_nodes, refusal
from raybench.verdicts import NodeState

from .reports import dead, host, report, report_of

OURS = marked("gpu-01", "gpu-rows, rma: 2 rows failed")


def line(name: str, state: str = "idle", reason: str = "none", user: str = "root") -> str:
    return f"{name}|{name}|10.0.0.{int(name[-2:])}|{state}|{user}|{reason}\n"


def step(state: NodeState, said: str, policy: Policy | None = None) -> tuple[str, str]:
    (one,) = planned(intents_of(report({"gpu-01": state}), policy or Policy()), read_nodes(said))
    assert bool(one.commands) == (one.step != "none")
    return one.step, one.why


@pytest.mark.parametrize(
    ("state", "said", "expected", "why"),
    [
        ("drain", line("gpu-01"), "drain", "gpu-rows: GPU 3"),
        ("drain", line("gpu-01", "mixed"), "drain", "gpu-rows"),
        ("drain", line("gpu-01", "allocated"), "drain", "gpu-rows"),
        ("drain", line("gpu-01", "drained", OURS), "none", "raybench drained it already"),
        ("drain", line("gpu-01", "draining", "new board"), "none", "drained already by root: new board"),
        ("drain", line("gpu-01", "down*", "Not responding", "slurm"), "none", "Slurm has it down already (slurm: Not"),
        ("drain", line("gpu-01", "maint"), "none", "Slurm has it maint"),
        ("healthy", line("gpu-01"), "none", "no check is against it"),
        ("healthy", line("gpu-01", "drained", OURS), "resume", "and it is healthy"),
        ("healthy", line("gpu-01", "draining", OURS), "resume", "and it is healthy"),
        ("healthy", line("gpu-01", "drained*", OURS), "none", "slurmd does not answer"),
        ("healthy", line("gpu-01", "drained", "new board"), "none", "drained by root: new board; left so"),
        ("healthy", line("gpu-01", "drained", f"{OURS} wait for the vendor"), "none", "left so"),
        ("healthy", line("gpu-01", "drained", marked("gpu-02", "x")), "none", "left so"),
        ("healthy", line("gpu-01", "down", OURS), "none", "no check"),
        ("degraded", line("gpu-01"), "none", "gpu-temperature"),
        ("degraded", line("gpu-01", "drained", OURS), "none", "left so: gpu-temperature"),
        ("unknown", line("gpu-01"), "none", "unknown: gpu-ecc"),
        ("unknown", line("gpu-01", "drained", OURS), "none", "left so: unknown"),
        ("drain", line("gpu-02"), "none", "no node gpu-01"),
    ],
)  # fmt: skip
def test_what_is_done_with_a_node(state: NodeState, said: str, expected: str, why: str) -> None:
    found = step(state, said)
    assert found[0] == expected
    assert why in found[1]


def test_a_degraded_node_is_resumed_where_the_user_says_so() -> None:
    assert step("degraded", line("gpu-01", "drained", OURS), Policy(degraded="resume"))[0] == "resume"
    assert step("degraded", line("gpu-01"), Policy(degraded="resume"))[0] == "none"


def test_a_host_that_does_not_answer_is_left_as_it_is() -> None:
    intents = intents_of(report_of([dead("gpu-01")]), Policy())
    for said in (line("gpu-01"), line("gpu-01", "drained", OURS)):
        (one,) = planned(intents, read_nodes(said))
        assert (one.step, one.state) == ("none", "unknown")


def test_the_commands_are_those_of_scontrol_and_the_reason_is_known_again() -> None:
    (one,) = planned(intents_of(report({"gpu-01": "drain"}), Policy()), read_nodes(line("gpu-01")))
    ((program, update, name, state, reason),) = one.commands
    assert (program, update, name, state) == ("scontrol", "update", "NodeName=gpu-01", "State=DRAIN")
    assert reason.startswith("Reason=raybench: gpu-rows, rma: GPU 3 (00000000:3B:00.0): 2 rows failed [")
    assert is_marked("gpu-01", reason.removeprefix("Reason="))
    assert not is_marked("gpu-02", reason.removeprefix("Reason="))


def test_what_a_host_wrote_cannot_end_the_reason_or_look_like_ours() -> None:
    forged = marked("gpu-01", "x\nState=RESUME|a'b\"c=`d`$(e)\x1b[31m" + "y" * 500)
    assert len(forged) < 200
    assert set("\n|='\"`$\x1b") & set(forged) == set()
    assert is_marked("gpu-01", forged)
    assert not is_marked("gpu-01", "raybench: x [00000000]")
    assert not is_marked("gpu-01", "")


def test_a_node_of_two_partitions_is_one_and_names_are_found_by_host_name_and_address() -> None:
    said = "n1|gpu-01.site|10.0.0.7|idle*|root|none\n" * 2
    nodes = read_nodes(said)
    assert list(nodes) == ["n1"]
    for name in ("n1", "gpu-01.site", "10.0.0.7", "n1.example.org"):
        (one,) = planned(intents_of(report({name: "drain"}), Policy()), nodes)
        assert one.node == "n1"
    ambiguous = planned(intents_of(report({"n1": "drain", "10.0.0.7": "drain"}), Policy()), nodes)
    assert {one.step for one in ambiguous} == {"none"}
    assert "n1 and 10.0.0.7 would all be the node n1" in ambiguous[0].why


def test_a_host_is_not_believed_which_node_it_is_unless_the_user_does() -> None:
    intents = intents_of(report_of([host("10.9.9.9", "drain", hostname="gpu-01")]), Policy())
    (one,) = planned(intents, read_nodes(line("gpu-01")))
    assert (one.step, one.node) == ("none", "")
    assert "--by-hostname" in one.why
    (one,) = planned(intents, read_nodes(line("gpu-01")), by_hostname=True)
    assert (one.step, one.node) == ("drain", "gpu-01")


def test_several_nodes_of_one_address_are_told_apart_by_nothing() -> None:
    said = "a|front|10.0.0.1|idle|root|none\nb|front|10.0.0.1|idle|root|none\n"
    (one,) = planned(intents_of(report({"front": "drain"}), Policy()), read_nodes(said))
    assert (one.step, "several nodes: a, b" in one.why) == ("none", True)


@pytest.mark.parametrize("name", ["gpu-[01-99]", "gpu-01,gpu-02", "ALL", "all", "gpu 01"])
def test_a_name_that_scontrol_would_read_as_several_is_no_node(name: str) -> None:
    intents = intents_of(report({name: "drain"}), Policy())
    for nodes in (None, read_nodes(line("gpu-01"))):
        (one,) = planned(intents, nodes)
        assert (one.step, one.commands) == ("none", ())


def test_without_sinfo_drains_are_shown_and_nothing_is_resumed() -> None:
    found = planned(intents_of(report({"a": "drain", "b": "healthy", "c": "unknown"}), Policy()), None)
    assert [one.step for one in found] == ["drain", "none", "none"]


def test_a_mass_drain_is_refused_with_those_of_before_counted() -> None:
    nodes = read_nodes("".join(line(f"gpu-{number:02}") for number in range(1, 21)))
    two = planned(intents_of(report({"gpu-01": "drain", "gpu-02": "drain"}), Policy()), nodes)
    assert refusal(two, nodes, "10%") == ""
    assert "limit is 1 (1)" in refusal(two, nodes, "1")
    three = planned(intents_of(report(dict.fromkeys(("gpu-01", "gpu-02", "gpu-03"), "drain")), Policy()), nodes)
    assert "3 nodes would be drained, of 20" in refusal(three, nodes, "10%")
    before = nodes | read_nodes(line("gpu-09", "drained", marked("gpu-09", "x")))
    assert "2 nodes would be drained beside 1 that raybench drained before" in refusal(two, before, "10%")
    assert refusal((), before, "0") == "", "nothing new is drained"


@pytest.mark.parametrize(
    ("text", "nodes", "limit"), [("10%", 500, 50), ("10%", 3, 1), ("12", 3, 12), ("0", 3, 0), ("100%", 7, 7)]
)
def test_a_limit_is_a_number_or_a_share(text: str, nodes: int, limit: int) -> None:
    assert limit_of(text, nodes) == limit


@pytest.mark.parametrize("text", ["", "%", "ten", "-1", "1.5", "101%", "²"])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        limit_of(text, 10)


def test_an_answer_of_another_form_is_not_taken_for_no_nodes() -> None:
    with pytest.raises(IncompleteRunError, match="six parts"):
        read_nodes("slurm_load_partitions: Unable to contact slurm controller\n")


def test_a_reason_of_several_lines_is_of_its_node_alone() -> None:
    found = read_nodes(line("gpu-01", "drained", "waiting\n for a board\n\nthanks") + line("gpu-02"))
    assert list(found) == ["gpu-01", "gpu-02"]
    assert (found["gpu-01"].drained, found["gpu-01"].ours, found["gpu-02"].drained) == (True, False, False)
    assert found["gpu-01"].reason.endswith("board thanks")
    with pytest.raises(IncompleteRunError, match="six parts"):
        read_nodes(line("gpu-01") + "gpu-02|gpu-02|10.0.")  # cut off


def test_what_a_screen_shows_of_a_dry_run_can_be_pasted_and_of_a_refusal_not() -> None:
    nodes = read_nodes(line("gpu-01") + line("gpu-02"))
    actions = planned(intents_of(report({"gpu-01": "drain", "gpu-02": "healthy"}), Policy()), nodes)
    shown = NodeActions(scheduler="slurm", judged_at="x", applied=False, actions=actions)
    pasted = [text for text in action_lines(shown) if not text.startswith("#")]
    assert len(pasted) == 1
    assert shlex.split(pasted[0]) == list(actions[0].commands[0])
    assert action_lines(shown)[-1] == (
        "# dry run, nothing was changed: 1 to drain, 0 to resume, 0 unknown and left as they are"
    )
    refused = replace(shown, refused="too many")
    assert [text for text in action_lines(refused) if not text.startswith("#")] == []
    assert (shown.exit_code, refused.exit_code) == (1, 3)


@pytest.mark.parametrize(
    ("states", "code"), [(["healthy", "degraded"], 0), (["healthy", "unknown"], 3), (["unknown", "drain"], 1)]
)
def test_unknown_is_never_a_clean_exit(states: list[NodeState], code: int) -> None:
    named = {f"gpu-{number:02}": state for number, state in enumerate(states)}
    actions = planned(intents_of(report(named), Policy()), None)
    assert NodeActions(scheduler="slurm", judged_at="x", applied=False, actions=actions).exit_code == code
