"""Recorded outputs of RDMA tools, of real NICs and of emulated ones, each beside what must not be read from it."""

from pathlib import Path

import pytest

from playbooks.module_utils.raybench_probe.counters import statistics_of
from raybench.preflight.fabric.counters import grown
from raybench.preflight.fabric.ends import end_from
from raybench.preflight.parsers.rdma import parse_fi_info, parse_ibstat, parse_rdma_link

from . import recorded
from .hosts import host, result

FOLDER = Path(__file__).parent / "recorded_rdma"


@pytest.mark.parametrize(
    ("name", "ports"),
    [
        ("soft_roce", [("rxe0/1", "", "Active", "LinkUp", 100, "Ethernet")]),
        ("soft_roce_cable_out", [("rxe0/1", "", "Down", "Polling", 100, "Ethernet")]),
        ("efa", [("efa_0/1", "", "Active", "LinkUp", 100, "Unknown")]),
        (
            "bluefield3_no_subnet_manager",
            [(f"mlx5_{n}/1", "MT41692", "Down", "LinkUp", 100, "InfiniBand") for n in (0, 1)],
        ),
        (
            "bluefield3_beside_connectx7",  # all on one level
            [
                ("mlx5_1/1", "MT4129", "Down", "Disabled", 10, "InfiniBand"),
                ("mlx5_2/1", "MT41692", "Down", "Disabled", 40, "Ethernet"),
            ],
        ),
        (
            "connectx6_beside_connectx4",
            [
                ("mlx5_0/1", "MT4123", "Active", "LinkUp", 200, "InfiniBand"),
                ("mlx5_1/1", "MT4123", "Down", "Disabled", 10, "InfiniBand"),
            ],
        ),
        (
            "connectx7_roce_beside_connectx6dx",  # cut off in its second device
            [
                ("mlx5_1/1", "MT4129", "Active", "LinkUp", 200, "Ethernet"),
                ("mlx5_10/1", "MT4125", "Down", "Disabled", None, ""),
            ],
        ),
        ("cut_short_by_ibpanic", [("mlx5_7/1", "...", "Active", "LinkUp", 200, "InfiniBand")]),
    ],
)
def test_ibstat(name: str, ports: list[tuple[object, ...]]) -> None:
    found = parse_ibstat(recorded.rdma(f"ibstat_{name}.txt"))
    assert [
        (port.name, port.device_type, port.state, port.physical_state, port.rate_gbits, port.link_layer)
        for port in found
    ] == ports


def test_a_link_without_a_subnet_manager_is_not_taken_for_a_bad_cable() -> None:
    waiting = result("rdma-port", host({"ibstat": recorded.rdma("ibstat_bluefield3_no_subnet_manager.txt")}))
    assert "subnet manager" in waiting.advice
    unplugged = result("rdma-port", host({"ibstat": recorded.rdma("ibstat_soft_roce_cable_out.txt")}))
    assert "cable" in unplugged.advice
    assert "subnet manager" not in unplugged.advice


def test_ibstat_that_ends_in_a_panic_leaves_the_word_to_the_kernel() -> None:
    """What it says of the ports before the one that it fell over is not the whole host."""
    base = "/sys/class/infiniband/mlx5_8/ports/1"
    kernel = {f"{base}/state": "1: DOWN", f"{base}/phys_state": "3: Disabled", f"{base}/link_layer": "InfiniBand"}
    cut = {"status": "failed", "rc": 255, "text": recorded.rdma("ibstat_cut_short_by_ibpanic.txt"), "error": ""}
    view = host({"ibstat": cut, "infiniband": {"status": "ok", "values": kernel}})
    assert [port.name for port in view.ports] == ["mlx5_8/1"]
    assert result("rdma-port", view).verdict == "fail"


def test_fi_info_names_a_device_once_whatever_the_number_of_fabrics() -> None:
    assert parse_fi_info(recorded.rdma("fi_info_efa.txt")) == {"efa": {"rdmap0s29"}}
    assert parse_fi_info(recorded.rdma("fi_info_efa_older.txt")) == {"efa": {"rdmap16s27", "rdmap32s27"}}
    assert parse_fi_info(recorded.rdma("fi_info_nothing.txt")) == {}


@pytest.mark.parametrize(
    ("name", "mtu"),
    [("soft_roce", 4096), ("soft_roce_cable_out", 4096), ("efa", 4096), ("connectx6dx_port_down", 1024)],
)
def test_ibv_devinfo_gives_the_mtu_in_use_and_not_the_largest(name: str, mtu: int) -> None:
    device = {"name": "d", "port": 1, "info": recorded.rdma(f"ibv_devinfo_{name}.txt")}
    (port,) = end_from("host", {"devices": [device]}, {}).verbs
    assert (port.mtu, port.iwarp) == (mtu, False)


def test_counters_of_soft_roce_and_efa() -> None:
    words = recorded.rdma("rdma_statistic_soft_roce.txt").split()[2:]
    soft = {name: int(number) for name, number in zip(words[::2], words[1::2], strict=True)}
    assert [(growth.name, growth.by) for growth in grown(dict.fromkeys(soft, 0), soft)] == [("completer_retry_err", 3)]
    efa = {line.split(" :")[0]: int(line.split(" :")[1]) for line in recorded.rdma("hw_counters_efa.txt").splitlines()}
    assert grown(dict.fromkeys(efa, 0), efa) == ()  # packets and keep-alives are no trouble
    assert [growth.name for growth in grown(efa, efa | {"rx_drops": 7})] == ["rx_drops"]


def test_counters_and_ports_of_the_rdma_tool_are_those_of_sysfs() -> None:
    soft = statistics_of(recorded.rdma("rdma_statistic_soft_roce.txt"))
    assert soft["rxe0/ports/1/hw_counters/sent_pkts"] == 17807
    two = statistics_of(recorded.rdma("rdma_statistic_connectx.txt"))
    assert two["mlx5_0/ports/1/hw_counters/resp_cqe_error"] == 1009
    assert two["mlx5_1/ports/1/hw_counters/out_of_buffer"] == 0
    assert statistics_of("link mlx5_0/1 a 1 b -1 c 1x d\nlink mlx5_0 e 1\n") == {"mlx5_0/ports/1/hw_counters/a": 1}
    told = {name: parse_rdma_link(recorded.rdma(f"rdma_link_{name}.txt"))[0] for name in ("efa", "soft_roce_cable_out")}
    assert (told["efa"].name, told["efa"].state, told["efa"].physical_state) == ("rdmap0s29/1", "Active", "LinkUp")
    out = told["soft_roce_cable_out"]
    assert (out.state, out.physical_state, out.is_ethernet) == ("Down", "Polling", True)


def test_every_output_that_is_kept_has_an_origin_and_a_test() -> None:
    origins, tests = (FOLDER / "README.md").read_text(), Path(__file__).read_text()
    for path in FOLDER.glob("*.txt"):
        assert path.name in origins
        kind, _, rest = path.stem.partition("_")
        assert path.name in tests or rest in tests or path.stem.partition("devinfo_")[2] in tests, (kind, path.name)
