"""Assignments, variables and compatibility of nodes: what each rank gets, and which nodes may be measured together."""

from pathlib import Path
from typing import Any

import pytest

from raybench.execution.collector import Collector
from raybench.execution.consistency import differences, masked_devices
from raybench.execution.placement import Candidate, PlacementPlan
from raybench.execution.rank_assignments import assignments_of, variables_of
from raybench.execution.ray_cluster.session import gpu_shares, own_gpus
from raybench.execution.record import Planned
from raybench.execution.variables import common_variables, node_variables
from raybench.metadata import library_settings

GPUS = [{"index": str(index)} for index in range(4)]


def planned(*, backend: str = "nccl", emulated: bool = False, facts: list[dict[str, Any]] | None = None) -> Planned:
    nodes = tuple(
        Candidate(node_id=str(index), name=f"n{index}", address=f"10.0.0.{index}", gpu_count=2, cpu_count=8)
        for index in range(2)
    )
    plain = {"gpu_ids": ["0", "1"], "gpus": GPUS, "visible_devices": None, "interfaces": {"10.0.0.1": "eth7"}}
    return Planned(
        plan=PlacementPlan(nodes=nodes, ranks_per_node=2, backend=backend),
        emulated=emulated,
        specs=(),
        collector=Collector(plan=(), world_size=4),
        variables={"NCCL_DEBUG": "INFO"},
        facts=facts or [plain, plain],
    )


def test_every_rank_knows_its_place_and_the_first_node_leads() -> None:
    assignments = assignments_of(planned(), 4711, 30.0)
    assert [
        [(assignment.rank, assignment.local_rank, assignment.device_index) for assignment in node]
        for node in assignments
    ] == [
        [(0, 0, 0), (1, 1, 1)],
        [(2, 0, 0), (3, 1, 1)],
    ]
    assert {
        (assignment.master_address, assignment.master_port, assignment.world_size)
        for node in assignments
        for assignment in node
    } == {("10.0.0.0", 4711, 4)}
    assert all(assignment.timeout_seconds > 30 for node in assignments for assignment in node)


def test_granted_gpus_are_counted_among_those_that_the_node_shows() -> None:
    facts = {"gpu_ids": ["6", "4"], "gpus": GPUS, "visible_devices": "4,5,6,7", "interfaces": {}}
    assignments = assignments_of(planned(facts=[facts, facts]), 1, 30.0)
    assert [assignment.device_index for assignment in assignments[0]] == [2, 0]


def test_gloo_ranks_have_no_device() -> None:
    assert {
        assignment.device_index for node in assignments_of(planned(backend="gloo"), 1, 30.0) for assignment in node
    } == {None}


def test_each_node_uses_the_interface_of_its_address() -> None:
    first, second = variables_of(planned(), "run")
    assert "NCCL_SOCKET_IFNAME" not in first  # no interface has the address: nothing is guessed
    assert (second["NCCL_SOCKET_IFNAME"], second["GLOO_SOCKET_IFNAME"]) == ("=eth7", "eth7")
    assert first["NCCL_DEBUG"] == "INFO"


def test_the_users_choice_of_interface_stands() -> None:
    own = node_variables({"NCCL_SOCKET_IFNAME": "ib0"}, {"interfaces": {"10.0.0.1": "eth7"}}, "10.0.0.1", None)
    assert (own["NCCL_SOCKET_IFNAME"], own["GLOO_SOCKET_IFNAME"]) == ("ib0", "eth7")


def test_a_nodes_own_configuration_stands() -> None:
    facts = {"interfaces": {"10.0.0.1": "eth7"}, "settings": {"NCCL_SOCKET_IFNAME": "bond0"}}
    own = node_variables({}, facts, "10.0.0.1", None)
    assert "NCCL_SOCKET_IFNAME" not in own  # the rank has it from its node already
    assert own["GLOO_SOCKET_IFNAME"] == "eth7"


def test_settings_of_a_node_come_from_nccls_file_and_over_it_the_environment(tmp_path: Path) -> None:
    conf = tmp_path / "nccl.conf"
    conf.write_text("# comment\n#NCCL_ALGO=Tree\nNCCL_SOCKET_IFNAME = bond0\nNCCL_DEBUG=WARN\nnot a setting\n")
    found = library_settings({"NCCL_CONF_FILE": str(conf), "NCCL_DEBUG": "INFO", "HOME": "/root"})
    assert (found["NCCL_SOCKET_IFNAME"], found["NCCL_DEBUG"]) == ("bond0", "INFO")
    assert not {"NCCL_ALGO", "HOME", "not a setting"} & set(found)


def test_ranks_see_what_the_nodes_daemon_sees() -> None:
    assert node_variables({}, {"visible_devices": "4,5"}, "a", None)["CUDA_VISIBLE_DEVICES"] == "4,5"
    assert node_variables({}, {"visible_devices": None}, "a", None)["CUDA_VISIBLE_DEVICES"] is None


def test_emulated_nodes_are_different_hosts_to_nccl_only() -> None:
    ids = [one.get("NCCL_HOSTID") for one in variables_of(planned(emulated=True), "run")]
    assert ids == ["run-n0", "run-n1"]
    assert all("NCCL_HOSTID" not in one for one in variables_of(planned(emulated=True, backend="gloo"), "run"))
    assert all("NCCL_HOSTID" not in one for one in variables_of(planned(), "run"))


def test_library_settings_are_passed_on_and_others_are_not() -> None:
    shell = {
        "NCCL_ALGO": "Ring",
        "UCX_TLS": "rc",
        "FI_PROVIDER": "efa",
        "HOME": "/root",
        "NCCL_DEBUG_FILE": "/x",
        "PATH": "/",
    }
    found = common_variables({"NCCL_PROTO": "LL"}, shell)
    assert {"NCCL_ALGO", "UCX_TLS", "FI_PROVIDER", "NCCL_PROTO"} <= set(found)
    assert not {"HOME", "PATH", "NCCL_DEBUG_FILE"} & set(found)


def test_nccl_logs_what_the_diagnosis_needs_unless_told_otherwise() -> None:
    found = common_variables({}, {})
    assert found["NCCL_DEBUG"] == "INFO"
    assert {"INIT", "NET", "ENV"} <= set(found["NCCL_DEBUG_SUBSYS"].split(","))
    chosen = common_variables({}, {"NCCL_DEBUG": "WARN"})
    assert chosen == {"NCCL_DEBUG": "WARN"}


def test_gpus_are_divided_over_emulated_nodes_and_shared_where_too_few() -> None:
    assert gpu_shares(["0", "1", "2", "3"], 2) == [("0", "1"), ("2", "3")]
    assert gpu_shares(["5"], 2) == [("5",), ("5",)]
    assert gpu_shares([], 3) == [(), (), ()]


@pytest.mark.parametrize(
    ("named", "gpus"),
    [
        ("0,1", ["0", "1"]),
        (" 2 , GPU-6d3e , MIG-1a2b ", ["2", "GPU-6d3e", "MIG-1a2b"]),
        ("-1", []),
        ("", []),
        ("NoDevFiles", []),
        ("1,-1,0", ["1"]),  # as CUDA reads it: nothing behind the first that is no GPU
    ],
)
def test_gpus_are_those_that_cuda_takes_from_the_variable(
    monkeypatch: pytest.MonkeyPatch, named: str, gpus: list[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    assert own_gpus() == gpus


def test_nccl_is_told_where_emulated_nodes_share_a_gpu() -> None:
    name, shared = "NCCL_MULTI_RANK_GPU_ENABLE", {"gpu_ids": ["0"], "gpus": GPUS, "visible_devices": "0"}
    assert [one.get(name) for one in variables_of(planned(emulated=True, facts=[shared, shared]), "run")] == ["1", "1"]
    own = [{"gpu_ids": [f"{first}", f"{first + 1}"], "gpus": GPUS, "visible_devices": None} for first in (0, 2)]
    assert all(name not in one for one in variables_of(planned(emulated=True, facts=own), "run"))
    assert all(name not in one for one in variables_of(planned(facts=[shared, shared]), "run"))


def facts_with(**versions: str | None) -> dict[str, Any]:
    return {"python": "3.11.7", "torch": "2.13.0", "nccl": None, "driver": None, "raybench": "0.1.0"} | versions


def test_a_different_version_names_the_odd_one_out() -> None:
    found = differences([("a", facts_with()), ("b", facts_with(torch="2.12.0")), ("c", facts_with())])
    assert [(finding.rule, finding.hosts) for finding in found] == [("versions-differ", ("b",))]
    assert "b has 2.12.0" in found[0].summary


def test_missing_software_is_a_difference_and_equal_nodes_have_none() -> None:
    assert differences([("a", facts_with(nccl="2.27.5")), ("b", facts_with())])[0].summary.startswith("nccl differs")
    assert differences([("a", facts_with()), ("b", facts_with(kernel="other"))]) == []


def test_ranks_that_see_fewer_gpus_than_their_node_has_are_reported() -> None:
    facts = [("a", {"gpus": GPUS}), ("b", {"gpus": GPUS})]
    ranks = [("a", {"visible_gpus": "4"}), ("b", {"visible_gpus": "1"}), ("b", {"visible_gpus": "4"})]
    (finding,) = masked_devices(facts, ranks)
    assert finding.hosts == ("b",)
    assert "b (1 of 4)" in finding.summary
    assert masked_devices(facts, [("a", {"visible_gpus": "4"}), ("b", {})]) == []
