"""Priorities and marks of RoCE: read in either tool's words, and set only where they differ."""

from pathlib import Path

import pytest
from module_utils.raybench_configure.engine import carry_out, roll_back
from module_utils.raybench_configure.journal import Journal
from module_utils.raybench_configure.resources.quality import dcb_options, mlnx_qos_options, parse_dcb, parse_mlnx_qos

from .item_hosts import MLNX_QOS, MLX, Units, machine, planned


def test_mlnx_qos_is_read(tmp_path: Path) -> None:
    state = parse_mlnx_qos(MLNX_QOS) or {}
    assert (state["trust"], state["pfc"], state["dscp 26"]) == ("dscp", [0, 0, 0, 1, 0, 0, 0, 0], 3)
    trusting_pcp = parse_mlnx_qos("Priority trust state: pcp\nPFC configuration:\n\tenabled 0 0 0 0 0 0 0 0\n")
    assert trusting_pcp == {"trust": "pcp", "pfc": [0] * 8}
    assert parse_mlnx_qos(MLNX_QOS.replace("enabled ", "nothing ")) is None
    assert parse_mlnx_qos("interface eth2 is not found") is None


def test_only_what_differs_is_set_and_trust_comes_first() -> None:
    now = {"trust": "pcp", "pfc": [0] * 8}
    wanted = {"trust": "dscp", "pfc": [0, 0, 0, 1, 0, 0, 0, 0], "dscp 26": 3}
    calls = [["--trust", "dscp"], ["--dscp2prio", "set,26,3"], ["--pfc", "0,0,0,1,0,0,0,0"]]
    assert mlnx_qos_options(now, wanted) == calls
    assert mlnx_qos_options(parse_mlnx_qos(MLNX_QOS) or {}, wanted) == []
    assert mlnx_qos_options(wanted, now)[-1] == ["--trust", "pcp"]
    assert dcb_options({**wanted, "dscp 26": 5}, wanted) == [
        ["app", "del", "dscp-prio", "26:5"],
        ["app", "add", "dscp-prio", "26:3"],
    ]


@pytest.mark.parametrize("hyphen", ["_", "-"])
def test_dcb_is_read_in_either_spelling(hyphen: str) -> None:
    flow = f'{{"pfc-cap":8,"prio{hyphen}pfc":[false,false,false,true,false,false,false,false]}}'
    state = parse_dcb(flow, f'{{"dscp{hyphen}prio":[[26,3]]}}')
    assert state == {"trust": "dscp", "pfc": [0, 0, 0, 1, 0, 0, 0, 0], "dscp 26": 3}
    assert parse_dcb(flow, "{}") == {"trust": "pcp", "pfc": [0, 0, 0, 1, 0, 0, 0, 0]}
    assert parse_dcb('{"prio_pfc":[true]}', "{}") is None
    assert parse_dcb("Error", "") is None


class Port:
    """A port behind an emulated mlnx_qos, which prints as the real tool does and keeps what it is told."""

    def __init__(self) -> None:
        self.trust, self.flow, self.mapping = "pcp", "0,0,0,0,0,0,0,0", {n: n // 8 for n in range(64)}

    def __call__(self, command: tuple[str, ...]) -> str:
        options = command[3:]
        if options[:1] == ("--trust",):
            self.trust = options[1]
        if options[:1] == ("--pfc",):
            self.flow = options[1]
        if options[:1] == ("--dscp2prio",):
            _, point, priority = options[1].split(",")
            self.mapping[int(point)] = int(priority)
        rows = [
            f"\tprio:{p} dscp:" + "".join(f"{n:02d}," for n, its in self.mapping.items() if its == p) for p in range(8)
        ]
        shown = "dscp2prio mapping:\n" + "\n".join(rows) + "\n" if self.trust == "dscp" else ""
        return (
            f"DCBX mode: OS controlled\nPriority trust state: {self.trust}\n{shown}PFC configuration:\n"
            f"\tpriority 0 1 2 3 4 5 6 7\n\tenabled {' '.join(self.flow.split(','))}\n"
        )


def test_priorities_of_an_emulated_port_are_set_once_and_taken_back(tmp_path: Path) -> None:
    port = Port()
    port.mapping[26] = 5
    ecn = "/sys/class/net/eth2/ecn/roce_np/enable/3"
    units = Units()
    host = machine(tmp_path, {**MLX, ecn: "0\n"}, mlnx_qos=port, systemctl=units)
    options = {"apply": True, "interfaces": [], "dscp": 26, "priority": 3, "tool": "auto"}
    made = carry_out(host, Journal(host), "q", planned(host, "roce_qos.priorities", **options), check=False)
    assert made.problem is None
    assert (port.trust, port.flow, port.mapping[26]) == ("dscp", "0,0,0,1,0,0,0,0", 3)
    assert host.word(ecn) == "1"
    unit = host.text("/etc/systemd/system/raybench-roce-qos.service") or ""
    assert "ExecStart=/usr/sbin/mlnx_qos -i eth2 --trust dscp\n" in unit
    again = carry_out(host, Journal(host), "q", planned(host, "roce_qos.priorities", **options), check=False)
    assert again.changes == []
    units.active.add("raybench-roce-qos.service")  # as after a boot
    done = roll_back(host, Journal(host), [], packages=False, check=False)
    assert (done.problem, done.conflicts) == (None, [])
    assert units.active == units.enabled == set()
    assert (port.trust, port.flow, host.word(ecn)) == ("pcp", "0,0,0,0,0,0,0,0", "0")
    assert not host.exists("/etc/systemd/system/raybench-roce-qos.service")


def test_priorities_wait_for_the_switches(tmp_path: Path) -> None:
    options = {"apply": False, "interfaces": [], "dscp": 26, "priority": 3, "tool": "auto"}
    plan = planned(machine(tmp_path, MLX, mlnx_qos=MLNX_QOS), "roce_qos.priorities", **options)
    assert plan.settings == []
    assert "switches" in (plan.skipped or "")


def test_a_tool_that_does_not_answer_sets_nothing(tmp_path: Path) -> None:
    options = {"apply": True, "interfaces": [], "dscp": 26, "priority": 3, "tool": "auto"}
    plan = planned(machine(tmp_path, MLX, mlnx_qos="No such device\n"), "roce_qos.priorities", **options)
    assert "none was set" in (plan.problem or "")
