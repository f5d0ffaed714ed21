"""Which network a run used: proved, refuted or unproven; and what is said of a speedup."""

from typing import Any

import pytest
from msgspec.structs import replace

from raybench.documents.study.network import Speedup
from raybench.documents.study.plan import Expectation, Study, Trial
from raybench.documents.study.ratio import Ratio
from raybench.documents.study.trial import Measured, TrialResult
from raybench.errors import UsageError
from raybench.studies.network import answer_network, network_variant, verdict_of
from raybench.studies.network_proof import prove
from raybench.studies.result import result_of
from tests.studies.sample import outcome_of, outcomes_of, run_result, training_point

FAST = 10_000_000
TRIAL = Trial(number=0, block=0, variant="x")


def outcome(
    traffic: dict[str, int] | None = None, diagnosis: dict[str, Any] | None = None, **changes: Any
) -> TrialResult:
    result = run_result([training_point(0.1)], traffic=traffic, **changes)
    return outcome_of(TRIAL, result, diagnosis, "run")


def nccl(
    network: str,
    gdr: bool | None = None,
    *,
    pids: tuple[int | None, ...] = (100, 200),
    rank_networks: tuple[str | None, ...] = (None, None),
    **counters: Any,
) -> TrialResult:
    """A run of ranks 0 and 1, processes 100 and 200; ``pids`` and ``rank_networks`` are those in the logs."""
    rows = [
        {"rank": rank, "pid": pid, "network": name}
        for rank, (pid, name) in enumerate(zip(pids, rank_networks, strict=True))
        if pid is not None
    ]
    made = run_result([training_point(0.1)], backend="nccl")
    for rank, node in enumerate(made["cluster"]["nodes"]):
        node |= {"ranks": [rank], "facts": {"ranks": {str(rank): {"pid": str(100 * (rank + 1))}}}}
    return outcome_of(TRIAL, made, {"network": network, "gdr": gdr, "ranks": rows, "counters": counters}, "run")


OFI = "plugin:aws-ofi-nccl"


@pytest.mark.parametrize(
    ("expected", "seen", "verdict"),
    [
        (Expectation(kind="rdma", gdr=True), nccl("ib", True), "proved"),
        (Expectation(kind="rdma", gdr=True), nccl("roce", True), "proved"),
        (Expectation(kind="rdma", gdr=True), nccl("ib", False), "refuted"),
        (Expectation(kind="rdma", gdr=True), nccl("ib", None), "unproven"),
        (Expectation(kind="rdma", gdr=False), nccl("ib", False), "proved"),
        (Expectation(kind="rdma", gdr=False), nccl("ib", True), "refuted"),
        (Expectation(kind="rdma", gdr=True), nccl("socket", False), "refuted"),  # fell back to TCP
        (Expectation(kind="socket"), nccl("socket", False), "proved"),
        (Expectation(kind="socket"), nccl("ib", True), "refuted"),
        (Expectation(kind="socket"), nccl("mixed", None), "refuted"),
        (Expectation(kind="rdma"), nccl("plugin:UCX", None), "unproven"),  # UCX may be either
        (Expectation(kind="rdma"), nccl("unknown", None), "unproven"),  # a missing line is no evidence
        (Expectation(kind="rdma"), nccl(OFI, ofi_providers=["efa"]), "proved"),
        (Expectation(kind="rdma"), nccl(OFI), "unproven"),  # libfabric over what?
        (Expectation(kind="rdma"), nccl(OFI, ofi_providers=["tcp;ofi_rxm"]), "refuted"),  # it is called Libfabric alike
        (Expectation(kind="socket"), nccl(OFI, ofi_providers=["tcp"]), "proved"),
        (Expectation(kind="rdma"), nccl(OFI, ofi_providers=["efa", "tcp"]), "refuted"),
        (Expectation(kind="rdma", gdr=True), nccl("ib", True, pids=(100, None)), "unproven"),  # a node without a log
        (Expectation(kind="rdma", gdr=True), nccl("ib", True, pids=(7, 8)), "unproven"),  # another run's logs
        (Expectation(kind="rdma", gdr=True), nccl("ib", True, pids=(100, 8)), "proved"),  # launched once more
        (Expectation(kind="rdma"), nccl("ib", True, rank_networks=("ib", "socket")), "refuted"),
        (Expectation(kind="rdma"), nccl("ib", True, rank_networks=("ib", "roce")), "proved"),
        (Expectation(kind="rdma", gdr=True), nccl("ib", True, gdr_channel_share=0.5), "unproven"),
        (Expectation(kind="rdma", gdr=True), nccl("ib", True, gdr_channel_share=1.0), "proved"),
        (Expectation(kind="rdma"), outcome(backend="nccl"), "unproven"),  # no log at all
        (
            Expectation(kind="rdma", gdr=True),
            outcome(backend="nccl", diagnosis={"network": "ib", "gdr": True}),
            "unproven",
        ),
        (Expectation(kind="socket"), outcome(), "proved"),  # gloo
        (Expectation(kind="rdma"), outcome(), "refuted"),
        (Expectation(kind="rdma"), outcome(nodes=("one",)), "unproven"),
        (Expectation(kind="socket"), outcome(emulated=True), "unproven"),
        (Expectation(kind="rdma"), outcome(emulated=True), "refuted"),
    ],
)
def test_the_kind_of_network(expected: Expectation, seen: TrialResult, verdict: str) -> None:
    assert prove(expected, seen).verdict == verdict


@pytest.mark.parametrize(
    ("device", "traffic", "verdict"),
    [
        ("eth1", {"eth0": 8_000, "eth1": FAST, "lo": 0}, "proved"),
        ("eth1", {"eth0": 8_000, "eth1": FAST, "lo": 10 * FAST}, "proved"),  # loopback is no network
        ("eth1", {"eth0": FAST, "eth1": 8_000}, "refuted"),
        ("eth1", {"eth0": FAST}, "refuted"),
        ("eth1", {"eth0": FAST // 3, "eth1": FAST}, "refuted"),
        ("eth1", {"eth0": 2_000, "eth1": 40_000}, "unproven"),
        ("eth1", None, "unproven"),
        ("eth0.100", {"eth0": FAST, "eth0.100": FAST}, "proved"),  # a VLAN and the device below it
        ("bond0", {"bond0": FAST, "eth0": FAST // 2, "eth1": FAST // 2}, "proved"),
        ("bond0", {"bond0": 9_000, "eth0": FAST}, "refuted"),
        ("storage", {"eth5": FAST, "storage": FAST}, "unproven"),  # may be a VLAN with a name of its own
        ("mlx5_0:1", {"mlx5_0:1": FAST, "eth0": 9_000}, "proved"),
    ],
)
def test_the_device_that_carried_the_data(device: str, traffic: dict[str, int] | None, verdict: str) -> None:
    assert prove(Expectation(device=device), outcome(traffic)).verdict == verdict


def test_one_node_that_goes_elsewhere_refutes_and_is_named() -> None:
    result = run_result([training_point(0.1)], traffic={"eth0": 9, "eth1": FAST}, nodes=("a", "b", "c", "d"))
    result["cluster"]["nodes"][2]["facts"] = {"traffic": {"eth0": {"sent_bytes": FAST}, "eth1": {"sent_bytes": 9}}}
    proof = prove(Expectation(device="eth1"), outcome_of(TRIAL, result, None, "run"))
    assert (proof.verdict, proof.seen) == ("refuted", "on c eth1 carried 0%, eth0 most")
    del result["cluster"]["nodes"][2]["facts"]["traffic"]
    proof = prove(Expectation(device="eth1"), outcome_of(TRIAL, result, None, "run"))
    assert (proof.verdict, proof.seen) == ("unproven", "no counters of c")


def test_all_that_proves_is_said() -> None:
    proof = prove(Expectation(kind="socket", device="eth1"), outcome({"eth1": FAST}))
    assert proof.seen == "TCP, eth1 carried 100%"
    assert "gloo" in proof.basis
    assert "bytes" in proof.basis


@pytest.mark.parametrize("text", ["ethernet", "a=", "=eth0", "a b=eth0", "fast=eth0;rm", "rdma=eth1", "x=" + "e" * 16])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        network_variant(text)


def test_settings_of_each_network() -> None:
    assert "NCCL_NET=Socket" in network_variant("tcp").arguments
    assert "NCCL_NET_GDR_LEVEL=LOC" in network_variant("rdma-no-gdr").arguments
    assert network_variant("rdma").arguments == ()
    assert "NCCL_SOCKET_IFNAME==eth1" in network_variant("fast=eth1").arguments
    assert "GLOO_SOCKET_IFNAME=eth1" in network_variant("fast=eth1").arguments


@pytest.mark.parametrize(
    ("ratio", "noise", "words"),
    [
        (Ratio(value=5.0, low=4.5, high=5.5, blocks=5), 1.1, "worth it: within the 2x to 10x"),
        (Ratio(value=1.7, low=1.6, high=1.8, blocks=5), 1.02, "worth it (more than 1.5x), though less than the 2x"),
        (Ratio(value=14.0, low=12.0, high=16.0, blocks=5), 1.1, "more than the 10x usual"),
        (Ratio(value=1.2, low=1.1, high=1.3, blocks=5), 1.1, "not worth it for this workload"),
        (Ratio(value=2.0, low=1.4, high=2.8, blocks=3), 1.1, "inconclusive: the interval"),
        (Ratio(value=9.0, low=None, high=None, blocks=1), 1.0, "inconclusive: the interval"),
        (Ratio(value=1.8, low=1.6, high=2.0, blocks=5), 1.4, "inconclusive: one network differs from itself by 1.40x"),
    ],
)
def test_a_verdict_needs_an_interval_clear_of_the_bound(ratio: Ratio, noise: float, words: str) -> None:
    assert words in verdict_of(ratio, noise, proved=True)
    assert "not proved" in verdict_of(ratio, noise, proved=False)


def study(*networks: str, repeats: int = 5) -> Study:
    variants = tuple(network_variant(name) for name in networks)
    return Study(kind="network", workload=("train",), variants=variants, repeats=repeats, seed=3)


TIMES = {"slow": 1.0, "fast": 0.2, "rdma": 0.1}
DEVICES = {"slow": "eth0", "fast": "eth1", "rdma": "eth1"}


def trained(trial: Trial) -> dict[str, Any]:
    """Drifts by 2 % a trial; the fast network is five times as fast."""
    seconds = TIMES[trial.variant] * (1 + 0.02 * trial.number)
    exposed = {"differencing": 0.8 * seconds if trial.variant == "slow" else 0.2 * seconds}
    point = training_point(seconds, communication={"exposed_seconds": exposed}, overhead=0.8)
    return run_result([point], traffic={DEVICES[trial.variant]: FAST})


def test_the_speedup_with_its_interval_ceiling_and_verdict() -> None:
    plan = study("slow=eth0", "fast=eth1")
    (speedup,) = answer_network(plan, outcomes_of(plan, trained)).speedups
    assert speedup.ratio.value == pytest.approx(5.0, rel=0.05)
    assert speedup.ratio.side_of(1.5) == "above"
    assert speedup.exposed_ratio is not None
    assert speedup.exposed_ratio.value == pytest.approx(20, rel=0.05)
    assert speedup.ceiling == pytest.approx(5.0)
    assert speedup.verdict.startswith("worth it")


def test_a_refuted_network_is_in_no_row_and_a_problem() -> None:
    plan = study("slow=eth0", "fast=eth1", "rdma")
    answer = answer_network(plan, outcomes_of(plan, trained))
    assert answer.refused == ("rdma",)
    assert {row.network for row in answer.rows} == {"slow", "fast"}
    assert [one.network for one in answer.speedups] == ["fast"]
    assert "rdma is refused" in answer.problems[0]
    assert result_of("s", plan, outcomes_of(plan, trained)).exit_code == 1


def test_one_run_of_many_on_the_wrong_network_refutes_all() -> None:
    plan = study("slow=eth0", "fast=eth1")

    def strayed(trial: Trial) -> dict[str, Any]:
        made = trained(trial)
        return made if (trial.variant, trial.block) != ("fast", 3) else run_result(
            made["benchmarks"][0]["points"], traffic={"eth0": FAST}
        )  # fmt: skip

    answer = answer_network(plan, outcomes_of(plan, strayed))
    assert answer.refused == ("fast",)
    assert answer.speedups == ()
    assert "nothing can be compared" in answer.remarks[0]


def test_wrong_results_are_a_problem_and_in_no_comparison() -> None:
    plan = study("slow=eth0", "fast=eth1", repeats=3)

    def wrong(trial: Trial) -> dict[str, Any]:
        made = trained(trial)
        made["benchmarks"][0]["points"][0]["verified"] = trial.number != 0
        return made

    result = result_of("s", plan, outcomes_of(plan, wrong))
    assert "wrong results in 000-" in result.problems[0]
    assert result.exit_code == 1
    assert result.answer.to_json()["speedups"][0]["ratio"]["blocks"] == 2


def test_missing_trials_make_it_partial_and_none_failed() -> None:
    plan = study("slow=eth0", "fast=eth1")
    some = result_of("s", plan, outcomes_of(plan, lambda trial: trained(trial) if trial.number < 5 else None))
    assert (some.status, some.exit_code, len(some.broken)) == ("partial", 3, 5)
    assert some.answer.to_json()["speedups"][0]["ratio"]["blocks"] == 2
    none = result_of("s", plan, outcomes_of(plan, lambda _: None))
    assert (none.status, none.exit_code) == ("failed", 3)


def test_a_study_that_proved_no_network_is_unknown() -> None:
    """Near miss: one that did not decide is a warning."""
    ratio = Ratio(value=2.0, low=None, high=None, blocks=1)
    unproved = Speedup(
        network="b", label="ddp", ratio=ratio, exposed_ratio=None, self_ratio=1.0, ceiling=None,
        verdict="no verdict: which network was used is not proved",
    )  # fmt: skip
    answer = replace(answer_network(study("slow=eth0"), []), speedups=(unproved,))
    assert answer.headline[1] is None
    undecided = replace(unproved, verdict="inconclusive: raise --repeats")
    assert replace(answer, speedups=(unproved, undecided)).headline[1] is False


def test_trials_that_differ_in_versions_or_nodes_are_told() -> None:
    plan = study("slow=eth0", "fast=eth1")

    def mixed(trial: Trial) -> dict[str, Any]:
        made = trained(trial)
        if trial.number == 4:
            made["environment"]["versions"]["torch"] = "2.12.0"
            made["cluster"]["nodes"][1]["name"] = "spare"
        return made

    remarks = result_of("s", plan, outcomes_of(plan, mixed)).to_json()["remarks"]
    assert any("different versions of torch" in remark for remark in remarks)
    assert any("different nodes" in remark for remark in remarks)
    clean = result_of("s", plan, outcomes_of(plan, trained)).to_json()
    assert clean["remarks"] == []
    assert clean["order"] == plan.order()


def test_a_step_waits_no_longer_than_it_lasts_and_an_unknown_share_gives_no_ceiling() -> None:
    def figure(exposed: float, **changes: Any) -> Measured:
        waits = {"exposed_seconds": {"differencing": exposed}}
        result = run_result([training_point(0.1, communication=waits, **changes)])
        return outcome_of(TRIAL, result, None, "run").measured[0]

    assert (figure(0.123).exposed_seconds, figure(0.09).exposed_seconds) == (0.1, 0.09)
    assert figure(0.123).overhead is None
    assert figure(0.03).overhead == pytest.approx(0.3)
