"""Variables that reach the ranks: the user's first, then what we add, and nothing else."""

from raybench.execution.variables import common_variables, node_variables

FACTS = {"interfaces": {"10.0.0.1": "eth1", "192.168.0.1": "eth0"}, "visible_devices": None}


def test_settings_of_the_libraries_are_passed_on_and_others_are_not() -> None:
    environment = {"NCCL_ALGO": "Ring", "UCX_TLS": "tcp", "PATH": "/bin", "MY_NCCL_X": "1", "OMP_NUM_THREADS": "2"}
    found = common_variables({}, environment)
    assert {name: found[name] for name in ("NCCL_ALGO", "UCX_TLS", "OMP_NUM_THREADS")} == {
        "NCCL_ALGO": "Ring", "UCX_TLS": "tcp", "OMP_NUM_THREADS": "2"
    }  # fmt: skip
    assert not {"PATH", "MY_NCCL_X"} & set(found)


def test_what_is_given_wins_over_what_is_passed_on() -> None:
    assert common_variables({"NCCL_ALGO": "Tree", "X": "1"}, {"NCCL_ALGO": "Ring"}) | {} == {
        "NCCL_ALGO": "Tree", "X": "1", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,ENV,NET,GRAPH"
    }  # fmt: skip


def test_a_level_that_the_user_chose_stays_with_its_subsystems() -> None:
    assert common_variables({}, {"NCCL_DEBUG": "WARN"}) == {"NCCL_DEBUG": "WARN"}
    assert common_variables({"NCCL_DEBUG": "TRACE"}, {}) == {"NCCL_DEBUG": "TRACE"}
    assert common_variables({}, {"NCCL_DEBUG_SUBSYS": "ALL"})["NCCL_DEBUG_SUBSYS"] == "ALL"


def test_each_rank_has_a_log_of_its_own() -> None:
    assert "NCCL_DEBUG_FILE" not in common_variables({}, {"NCCL_DEBUG_FILE": "/x"})


def test_both_libraries_take_the_interface_of_the_nodes_address_exactly() -> None:
    found = node_variables({}, FACTS, "10.0.0.1", None)
    assert (found["GLOO_SOCKET_IFNAME"], found["NCCL_SOCKET_IFNAME"]) == ("eth1", "=eth1")
    assert "NCCL_HOSTID" not in found


def test_the_users_interface_stays() -> None:
    found = node_variables({"NCCL_SOCKET_IFNAME": "ib0"}, FACTS, "10.0.0.1", None)
    assert (found["NCCL_SOCKET_IFNAME"], found["GLOO_SOCKET_IFNAME"]) == ("ib0", "eth1")


def test_an_address_of_no_interface_sets_nothing() -> None:
    assert not {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"} & set(node_variables({}, FACTS, "10.9.9.9", None))


def test_emulated_nodes_are_hosts_of_their_own_and_gpus_are_the_nodes() -> None:
    found = node_variables({}, FACTS | {"visible_devices": "2,3"}, "10.0.0.1", "run-node-1")
    assert (found["NCCL_HOSTID"], found["CUDA_VISIBLE_DEVICES"]) == ("run-node-1", "2,3")
    assert node_variables({}, FACTS, "10.0.0.1", None)["CUDA_VISIBLE_DEVICES"] is None
