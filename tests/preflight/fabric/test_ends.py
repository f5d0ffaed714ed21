"""Ports, rails, expected values and command lines from what hosts say of themselves."""

from typing import Any

import pytest

from raybench.errors import UsageError
from raybench.preflight.fabric.commands import command_for, gid_index, gpu_options, nearest_gpu
from raybench.preflight.fabric.ends import choose_gid, data_rate, end_from, pci_link, tool_options
from raybench.preflight.fabric.expected import expected_bandwidth, judged_by_expected, pci_gbit_per_s
from raybench.preflight.fabric.rails import tcp_rails, verbs_rails
from raybench.preflight.fabric.settings import FabricSettings, settings_from
from tests.preflight.fabric.ends import found, verbs_device

V4 = "0000:0000:0000:0000:0000:ffff:0a00:0001"
ROCE_GIDS = [
    {"index": 0, "gid": "fe80:0000:0000:0000:0000:0000:0000:0001", "type": "IB/RoCE v1", "netdev": "eth2"},
    {"index": 1, "gid": "fe80:0000:0000:0000:0000:0000:0000:0001", "type": "RoCE v2", "netdev": "eth2"},
    {"index": 2, "gid": V4, "type": "IB/RoCE v1", "netdev": "eth2"},
    {"index": 3, "gid": V4, "type": "RoCE v2", "netdev": "eth2"},
]
HELP = """  -d, --ib-dev=<dev>  Use IB device <dev> (default first device found)
      --use_cuda=<cuda device id> Use CUDA specific device for GPUDirect RDMA testing
      --use_cuda_bus_id=<cuda full BUS id> Use CUDA specific device, based on its full PCIe address
      --use_cuda_dmabuf Use CUDA DMA-BUF for GPUDirect RDMA testing
"""


def port(**changes: Any) -> Any:
    return end_from("h", found(verbs_device("mlx5_0", **changes)), {}).verbs[0]


def roce(**changes: Any) -> Any:
    return port(link_layer="Ethernet", rate="100 Gb/sec (4X EDR)", gids=ROCE_GIDS, **changes)


@pytest.mark.parametrize(
    ("text", "ethernet", "rate"),
    [
        ("400 Gb/sec (4X NDR)", False, 400.0),
        ("200 Gb/sec (4X HDR)", False, 200.0),
        ("100 Gb/sec (4X EDR)", False, 100.0),
        ("56 Gb/sec (4X FDR)", False, 56 * 64 / 66),
        ("40 Gb/sec (4X QDR)", False, 32.0),
        ("40 Gb/sec (4X QDR)", True, 40.0),  # 40 Gb Ethernet: the rate is the data's
        ("2.5 Gb/sec (1X SDR)", True, 2.5),
        ("unknown", False, None),
        (None, True, None),
    ],
)
def test_data_rates(text: str | None, ethernet: bool, rate: float | None) -> None:
    assert data_rate(text, ethernet=ethernet) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("speed", "width", "payload", "gbit"),
    [
        ("8.0 GT/s PCIe", "16", 256, 115.2),  # 3.0 x16: a 100 Gb/s card fits
        ("8.0 GT/s PCIe", "8", 256, 57.6),  # the same card in half a slot does not
        ("16.0 GT/s PCIe", "16", 512, 240.8),
        ("32.0 GT/s PCIe", "16", 256, 461.0),
        ("5.0 GT/s PCIe", "8", 128, 26.9),
    ],
)
def test_slots(speed: str, width: str, payload: int, gbit: float) -> None:
    link = pci_link({"links": [{"address": "x", "speed": speed, "width": width}], "max_payload_bytes": payload})
    assert link is not None
    assert pci_gbit_per_s(link) == pytest.approx(gbit, rel=2e-3)


def test_the_narrowest_bridge_above_a_card_decides_and_a_virtual_function_is_unknown() -> None:
    bridge = {"address": "0000:16:01.0", "speed": "16.0 GT/s PCIe", "width": "8"}
    card = {"address": "0000:17:00.0", "speed": "16.0 GT/s PCIe", "width": "16"}
    assert getattr(pci_link({"links": [card, bridge]}), "address", None) == "0000:16:01.0"
    assert pci_link({"links": [{"address": "v", "speed": "Unknown", "width": "0"}]}) is None
    assert pci_link(None) is None


def test_expected_is_the_least_of_links_and_slots_and_says_which() -> None:
    good = expected_bandwidth(port(), port())
    assert good.gbit_per_s == pytest.approx(400 * 4096 / 4122)
    assert "link of mlx5_0, 400 Gb/sec (4X NDR), MTU 4096" in good.basis
    half = {"path": "/p", "links": [{"address": "0000:17:00.0", "speed": "32.0 GT/s PCIe", "width": "8"}],
            "max_payload_bytes": 256}  # fmt: skip
    slot = expected_bandwidth(port(), port(pci=half))
    assert slot.gbit_per_s == pytest.approx(230.5, rel=1e-3)
    assert slot.basis.startswith("PCIe 5.0 x8 at 0000:17:00.0, max payload 256 B")
    small = expected_bandwidth(roce(info="active_mtu: 1024 (3)"), roce())
    assert small.gbit_per_s == pytest.approx(100 * 1024 / 1106)  # 92.57 was measured at this MTU on a ConnectX-7


def test_what_cannot_be_told_is_unknown() -> None:
    assert expected_bandwidth(port(driver="rdma_rxe", pci=None), port()).gbit_per_s is None
    assert expected_bandwidth(port(rate=None), port()).gbit_per_s is None
    (rail,) = tcp_rails([end_from("h", found(), {"fabric_address": "10.9.9.9"})])
    assert rail.ports["h"].rate_gbit_per_s is None


def test_tcp_over_fast_links_is_not_judged_by_the_link() -> None:
    (rail,) = tcp_rails([end_from("h", found(), {})])
    slow = rail.ports["h"]
    assert slow.name == "eth0"
    assert judged_by_expected([slow, slow])
    fast = end_from("h", found() | {"interfaces": [found()["interfaces"][0] | {"speed_mbit": 100000}]}, {})
    assert not judged_by_expected([tcp_rails([fast])[0].ports["h"]])


def test_roce_takes_version_2_with_an_ipv4_address() -> None:
    chosen = choose_gid(roce().gids)
    assert chosen is not None
    assert chosen.index == 3
    assert gid_index(roce(), -1) == 3
    assert gid_index(roce(), 1) == 1
    assert gid_index(port(), -1) is None  # InfiniBand needs none
    assert gid_index(port(driver="efa"), -1) == 0
    only_v1 = [gid for gid in ROCE_GIDS if gid["type"] != "RoCE v2"]
    assert gid_index(port(link_layer="Ethernet", gids=only_v1), -1) == 0
    link_local = [gid for gid in ROCE_GIDS if gid["index"] < 2]
    assert gid_index(port(link_layer="Ethernet", gids=link_local), -1) == 1


def test_gpu_memory_only_where_it_is_built_in() -> None:
    assert gpu_options(tool_options(HELP), 3) == ("--use_cuda=3", "--use_cuda_dmabuf")
    assert gpu_options(tool_options(HELP.replace("--use_cuda_dmabuf", "--other")), 3) == ("--use_cuda=3",)
    assert gpu_options(tool_options("--use_cuda_bus_id only"), 3) == ()
    rocm = HELP.replace("cuda", "rocm")
    assert gpu_options(tool_options(rocm), 3, "amd") == ("--use_rocm=3", "--use_rocm_dmabuf")
    assert gpu_options(tool_options(rocm), 3) == gpu_options(tool_options(HELP), 3, "amd") == ()
    near = ["/sys/devices/pci0000:80/0000:81:00.0", "/sys/devices/pci0000:15/0000:16:00.0"]
    assert nearest_gpu(port(), near) == 1
    assert nearest_gpu(port(pci=None), near) is None


def test_command_lines() -> None:
    end = end_from("h", found(verbs_device("mlx5_0")), {})
    settings = FabricSettings(traffic_class=106)
    command = command_for("ib_write_bw", end, roce(), settings)
    assert command.client == (
        "/usr/bin/ib_write_bw", "-d", "mlx5_0", "-i", "1", "-p", "{port}", "-F", "-D", "2", "-s", "65536", "-q", "2",
        "--report_gbits", "-x", "3", "--tclass=106", "{peer}",
    )  # fmt: skip
    assert command.server == command.client[:-1]
    assert "-c" in command_for("ib_write_bw", end, port(driver="efa"), settings).server
    assert "-R" in command_for("ib_write_bw", end, port(info="transport: iWARP (1)"), settings).server
    latency = command_for("ib_write_lat", end, port(), settings).server
    assert "-D" not in latency
    assert command_for("iperf3", end, tcp_rails([end])[0].ports["h"], settings).server[-2:] == ("-B", "10.0.0.1")
    assert command_for("tcp", end, port(), settings).kind == "stream"


def test_rails_by_name_and_by_place() -> None:
    one = end_from("a", found(*(verbs_device(f"mlx5_{number}") for number in (0, 2, 10))), {})
    other = end_from("b", found(*(verbs_device(f"mlx5_{number}") for number in (0, 2, 10))), {})
    rails, problems = verbs_rails([one, other], "")
    assert ([rail.name for rail in rails], problems) == (["mlx5_0", "mlx5_2", "mlx5_10"], ())
    named_else = end_from("c", found(verbs_device("rocep1s0f0"), verbs_device("rocep1s0f1"), verbs_device("z")), {})
    rails, _ = verbs_rails([one, named_else], "")
    assert [rail.ports["c"].name for rail in rails] == ["rocep1s0f0", "rocep1s0f1", "z"]
    assert [rail.name for rail in verbs_rails([one, other], "mlx5_1*")[0]] == ["mlx5_10"]


def test_a_port_that_is_down_on_one_host_is_its_fault_and_one_down_everywhere_is_no_rail() -> None:
    down = {"state": "1: DOWN", "phys_state": "2: Polling"}
    hosts = [end_from(name, found(verbs_device("mlx5_0"), verbs_device("mlx5_1", **down)), {}) for name in "abc"]
    rails, problems = verbs_rails(hosts, "")
    assert ([rail.name for rail in rails], problems) == (["mlx5_0"], ())
    broken = end_from("d", found(verbs_device("mlx5_0", **down)), {})
    rails, problems = verbs_rails([*hosts, broken], "")
    assert set(rails[0].ports) == {"a", "b", "c"}
    assert {(problem.host, problem.fault) for problem in problems} == {("d", True)}
    assert "DOWN, Polling, while 3 other hosts have rail mlx5_0 up" in problems[0].text


def test_a_host_that_lacks_a_card_is_named() -> None:
    both = [verbs_device("mlx5_0"), verbs_device("mlx5_1")]
    hosts = [end_from(name, found(*both), {}) for name in "abc"] + [end_from("d", found(both[0]), {})]
    _, problems = verbs_rails(hosts, "")
    assert [(problem.host, problem.device) for problem in problems] == [("d", "mlx5_1")]


def test_addresses() -> None:
    assert end_from("h", found(address="10.0.0.7"), {}).address == "10.0.0.7"  # not docker0's
    two = found() | {
        "addresses": [*found()["addresses"], {"interface": "ib0", "family": "inet", "address": "10.1.0.1"}]
    }
    assert end_from("h", two, {"ansible_host": "10.1.0.1"}).interface == "ib0"
    assert end_from("h", two, {"fabric_interface": "ib0"}).address == "10.1.0.1"
    assert end_from("h", two, {"fabric_interface": "none"}).address is None


@pytest.mark.parametrize(
    "values",
    [
        {"tool": "nc"},
        {"scope": "some"},
        {"seconds": 0},
        {"seconds": "x"},
        {"seconds": 1.5},
        {"slow_ratio": 2},
        {"what": 1},
        {"first_port": 20000, "last_port": 19000},
    ],
)
def test_settings_that_cannot_be_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        settings_from(values)


def test_settings_from_text_as_ansible_hands_them_over() -> None:
    settings = settings_from({"seconds": "3", "slow_ratio": "0.8", "devices": ["mlx5_0", "mlx5_1"], "seed": None})
    assert (settings.seconds, settings.slow_ratio, settings.devices, settings.seed) == (3, 0.8, "mlx5_0,mlx5_1", 0)
