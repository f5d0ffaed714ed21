"""A whole test without hosts: plans, made-up results, and what the report says of them."""

import io
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from raybench.documents.loading import document_in
from raybench.errors import UsageError
from raybench.preflight.fabric.conduct import Reply, fabric_of, final_report, plan_confirmation, plan_scan
from raybench.preflight.fabric.settings import FabricSettings, settings_from
from raybench.reports.builders.asked import Asked
from raybench.reports.builders.fabric_tables import fabric_tables
from raybench.reports.html import write_html
from raybench.reports.terminal.report import print_document, report_lines
from raybench.verdicts import EXIT_CODES
from tests.preflight.fabric.ends import found, reply, verbs_device

Results = dict[str, list[dict[str, Any]]]
TIMES = ("2026-11-21T10:00:00Z", "2026-11-21T10:01:00Z")
HEADING = "#bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]"


def hosts(count: int, devices: int = 1, **changes: Any) -> list[Reply]:
    nics = [verbs_device(f"mlx5_{number}", **changes) for number in range(devices)]
    return [reply(f"h{number}", found(*nics, address=f"10.0.0.{number + 1}")) for number in range(count)]


def output(gbit: float) -> str:
    return f"{HEADING}\n 65536 5000 0.00 {gbit:.2f} {gbit / 65536 / 8e-3:.6f}\n"


def run(step: Any, speed: Callable[[str, str, str], float | None], results: Results) -> None:
    """Do a step's work: every test's client gets what ``speed`` says of (source, destination, rail); None fails."""
    for host, work in step.to_json()["work"].items():
        for number, lanes in work["rounds"]:
            for test, role, peer, key in (one for lane in lanes for one in lane):
                entry: dict[str, Any] = {"test": test, "role": role, "peer": peer, "key": key, "round": number}
                if role == "client":
                    value = speed(host, peer, key)
                    entry |= (
                        {"code": 0, "output": output(value)}
                        if value
                        else {"problem": "10.0.0.9, port 18500, does not answer: refused"}
                    )
                results.setdefault(host, []).append(entry)


def whole(
    replies: list[Reply], settings: FabricSettings, speed: Callable[[str, str, str], float | None]
) -> dict[str, Any]:
    results: Results = {}
    step = plan_scan(replies, settings, token="t", forks=50)
    for _ in range(settings.confirm_rounds + 1):
        if not step.work:
            break
        run(step, speed, results)
        done = step.first + step.rounds
        step = plan_confirmation(replies, settings, results, done=done, token="t", forks=50)
    return json.loads(json.dumps(final_report(replies, settings, results, run_id="r1", times=TIMES).to_json()))


def summaries(report: dict[str, Any]) -> list[tuple[str, list[str], bool]]:
    return [(one["kind"], one["hosts"], one["confirmed"]) for one in report["suspects"]]


def test_a_clean_fabric_passes() -> None:
    report = whole(hosts(6), FabricSettings(scope="all"), lambda *_: 392.0)
    assert (report["verdict"], report["status"], report["suspects"]) == ("ok", "complete", [])
    assert len(report["pairs"]) == 30
    assert report["pairs"][0]["expected_gbit_per_s"] == pytest.approx(397.5, rel=1e-3)
    assert report["rounds"] == {"scan": 5, "confirm": 0}


def test_a_slow_host_is_named_with_figures_basis_and_advice() -> None:
    report = whole(hosts(8), FabricSettings(), lambda a, b, _: 190.0 if "h3" in {a, b} else 392.0)
    assert summaries(report) == [("host", ["h3"], True)]
    one = report["suspects"][0]
    assert (one["verdict"], report["verdict"], report["verdict_reason"]) == ("fail", "critical", one["summary"])
    assert "190" in one["seen"]
    assert "90% of what the links carry" in one["expected"]
    assert "400 Gb/sec (4X NDR)" in one["basis"]
    assert "lspci" in one["advice"]
    assert [host["verdict"] for host in report["hosts"]] == ["pass"] * 3 + ["fail"] + ["pass"] * 4


def test_a_slow_way_is_told_from_a_slow_host() -> None:
    report = whole(hosts(6), FabricSettings(scope="all"), lambda a, b, _: 100.0 if {a, b} == {"h1", "h4"} else 392.0)
    assert summaries(report) == [("link", ["h1", "h4"], True)]
    assert "look between them" in report["suspects"][0]["advice"]
    assert {host["verdict"] for host in report["hosts"]} == {"pass"}


def test_one_direction_is_enough() -> None:
    report = whole(hosts(6), FabricSettings(scope="all"), lambda a, b, _: 100.0 if (a, b) == ("h1", "h4") else 392.0)
    assert summaries(report) == [("link", ["h1", "h4"], True)]


@pytest.mark.parametrize(
    ("receives", "sends", "words"),
    [
        (190.0, 392.0, "host h3 is slow, in what it is sent only, with"),
        (392.0, 190.0, "host h3 is slow, in what it sends only, with"),
        (190.0, 190.0, "host h3 is slow with"),
    ],
)
def test_the_direction_of_a_slow_host_is_told(receives: float, sends: float, words: str) -> None:
    report = whole(hosts(6), FabricSettings(), lambda a, b, _: {b: receives, a: sends}.get("h3", 392.0))
    assert summaries(report) == [("host", ["h3"], True)]
    assert words in report["suspects"][0]["summary"]


def test_one_bad_nic_of_four_is_a_device_and_three_are_the_host() -> None:
    def speed(bad: set[str]) -> Callable[[str, str, str], float]:
        return lambda a, b, rail: 50.0 if "h2" in {a, b} and rail in bad else 392.0

    settings = FabricSettings(scope="rails")
    assert summaries(whole(hosts(6, 4), settings, speed({"mlx5_2"}))) == [("device", ["h2"], True)]
    report = whole(hosts(6, 4), settings, speed({"mlx5_0", "mlx5_1", "mlx5_2"}))
    assert summaries(report) == [("host", ["h2"], True)]
    assert report["suspects"][0]["rails"] == ["mlx5_0", "mlx5_1", "mlx5_2"]


def test_a_fabric_that_is_slow_as_a_whole_names_no_host() -> None:
    report = whole(hosts(6), FabricSettings(), lambda *_: 200.0)
    assert summaries(report) == [("fabric", [], True)]
    assert report["verdict"] == "critical"


def test_an_outlier_within_what_is_expected_is_found_by_its_neighbours() -> None:
    """Without a known rate only the others say what is typical."""
    replies = hosts(8, rate="")
    report = whole(replies, FabricSettings(), lambda a, b, _: 60.0 if "h3" in {a, b} else 92.0)
    assert summaries(report) == [("host", ["h3"], True)]
    assert "is typical of 8 hosts" in report["suspects"][0]["expected"]
    near = whole(replies, FabricSettings(), lambda a, b, _: 80.0 if "h3" in {a, b} else 92.0)
    assert near["suspects"] == []  # 13 % below is within the 20 %


def test_a_host_that_cannot_be_tested_is_an_error_and_not_slow() -> None:
    report = whole(hosts(6), FabricSettings(scope="all"), lambda a, b, _: None if "h5" in {a, b} else 392.0)
    assert summaries(report) == [("host", ["h5"], True)]
    assert (report["suspects"][0]["verdict"], report["verdict"], report["status"]) == ("error", "incomplete", "partial")
    assert "firewall" in report["suspects"][0]["advice"]


def test_a_trunk_between_two_leaves_is_one_suspect() -> None:
    replies = [
        reply(f"h{n}", found(verbs_device("mlx5_0"), address=f"10.0.0.{n}"), fabric_leaf=f"leaf{n // 4}")
        for n in range(12)
    ]

    def speed(a: str, b: str, _: str) -> float:
        leaves = {int(a[1:]) // 4, int(b[1:]) // 4}
        return 150.0 if leaves == {0, 2} else 392.0

    report = whole(replies, FabricSettings(), speed)
    assert [one["kind"] for one in report["suspects"]] == ["leaf-link"]
    assert "between leaf0 and leaf2" in report["suspects"][0]["summary"]


def test_hosts_that_did_not_answer_or_were_lost_are_in_the_report() -> None:
    replies = [*hosts(4), reply("gone", None)]
    settings, results = FabricSettings(scope="all"), {}
    run(plan_scan(replies, settings, token="t", forks=5), lambda a, b, _: None if "h3" in {a, b} else 392.0, results)
    lost = [
        Reply(name=one.name, end=one.end, problem=one.problem, options={}, lost="ssh" if one.name == "h3" else "")
        for one in replies
    ]
    assert not plan_confirmation(lost, settings, results, done=3, token="t", forks=5).work
    report = final_report(lost, settings, results, run_id="r", times=TIMES).to_json()
    verdicts = {host["name"]: host["verdict"] for host in report["hosts"]}
    assert verdicts == {"h0": "pass", "h1": "pass", "h2": "pass", "h3": "error", "gone": "error"}
    assert (report["suspects"], report["status"]) == ([], "partial")


def test_a_port_that_is_down_fails_its_host() -> None:
    down = verbs_device("mlx5_0", state="1: DOWN", phys_state="2: Polling")
    replies = [*hosts(4), reply("h4", found(down, address="10.0.0.9"))]
    report = whole(replies, FabricSettings(), lambda *_: 392.0)
    assert report["verdict"] == "critical"
    assert "DOWN, Polling" in report["hosts"][-1]["problems"][0]["seen"]


def test_counters_of_faults_warn_though_the_figure_is_good() -> None:
    replies, settings = hosts(3), FabricSettings(scope="all")
    results: Results = {}
    run(plan_scan(replies, settings, token="t", forks=5), lambda *_: 392.0, results)
    next(one for one in results["h1"] if one["role"] == "client")["counters"] = {
        "symbol_error": [5, 25],
        "port_xmit_data": [0, 9],
    }
    report = final_report(replies, settings, results, run_id="r", times=TIMES).to_json()
    (warned,) = [pair for pair in report["pairs"] if pair["verdict"] == "warn"]
    assert warned["counters"] == {"source": {"symbol_error": 20}}
    assert report["verdict"] == "warning"


def test_latency_is_compared() -> None:
    def lat(text: float) -> str:
        return (
            f"#bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec]\n 2 1000 1.0 9.9 {text} {text}\n"
        )

    replies, settings = hosts(6), FabricSettings(scope="all", tool="ib_write_lat")
    results: Results = {}
    run(plan_scan(replies, settings, token="t", forks=5), lambda *_: 1.0, results)
    for host, entries in results.items():
        for entry in entries:
            if entry["role"] == "client":
                entry["output"] = lat(9.0 if "h2" in {host, entry["peer"]} else 1.6)
    report = final_report(replies, settings, results, run_id="r", times=TIMES).to_json()
    assert summaries(report) == [("host", ["h2"], True)]
    assert report["unit"] == "us"


def test_the_tool_is_chosen_for_all_hosts_alike() -> None:
    assert fabric_of(hosts(3), FabricSettings()).tool == "ib_write_bw"
    without = [reply(f"h{number}", found(tools=("iperf3",), address=f"10.0.0.{number}")) for number in range(3)]
    assert fabric_of(without, FabricSettings()).tool == "iperf3"
    one_lacks = [*without, reply("h9", found(tools=(), address="10.0.0.9"))]
    fabric = fabric_of(one_lacks, FabricSettings(tool="iperf3"))
    assert fabric.tool == "tcp"
    assert "h9" in fabric.notes[0]


SOFT = {"driver": "rdma_rxe", "link_layer": "Ethernet", "rate": "2.5 Gb/sec (1X SDR)", "pci": None}
DOWN = {"state": "1: DOWN", "phys_state": "2: Polling"}


def with_ports(*changes: dict[str, Any]) -> list[Reply]:
    return [
        reply(f"h{number}", found(verbs_device("rxe0", **change), address=f"10.0.0.{number}"))
        for number, change in enumerate(changes)
    ]


def test_a_port_that_is_down_does_not_turn_the_test_to_tcp() -> None:
    fabric = fabric_of(with_ports(SOFT, SOFT, SOFT | DOWN), FabricSettings())
    assert (fabric.tool, fabric.names) == ("ib_write_bw", ("h0", "h1"))
    assert ("h2", "rxe0", True) in [(one.host, one.device, one.fault) for one in fabric.problems]


def test_a_port_that_is_down_is_told_where_only_tcp_is_left_to_measure() -> None:
    fabric = fabric_of(with_ports({}, DOWN), FabricSettings())
    assert (fabric.tool, fabric.names) == ("iperf3", ("h0", "h1"))
    assert [(one.host, one.device, one.fault) for one in fabric.problems] == [("h1", "rxe0", True)]


def test_ports_that_are_down_everywhere_or_not_asked_for_are_no_fault() -> None:
    assert fabric_of(with_ports(DOWN, DOWN), FabricSettings()).problems == ()
    assert fabric_of(with_ports({}, DOWN), FabricSettings(tool="iperf3")).problems == ()


def test_work_gives_both_directions_and_ends_within_bounds() -> None:
    step = plan_scan(hosts(4, 2), FabricSettings(scope="all"), token="t", forks=50)
    work = step.work["h0"]
    assert [number for number, _ in work["rounds"]] == [0, 1, 2]
    lanes = work["rounds"][0][1]
    assert [[test[1] for test in lane] for lane in lanes] == [["client", "server"], ["client", "server"]]
    assert work["deadline_seconds"] > step.seconds
    assert step.portions == ([0, 0], [1, 1], [2, 2])
    assert plan_scan(hosts(1), FabricSettings(tool="ib_write_bw"), token="t", forks=5).problem.startswith(
        "a fabric test with ib_write_bw"
    )


def test_hundreds_of_hosts_over_leaves() -> None:
    replies, settings = hosts(320), FabricSettings(leaf_size=32, confirm_rounds=3)
    report = whole(replies, settings, lambda a, b, _: 100.0 if {"h17", "h300"} & {a, b} else 392.0)
    assert {tuple(one["hosts"]) for one in report["suspects"]} == {("h17",), ("h300",)}
    assert report["rounds"]["scan"] == 10


def test_the_reports_show_what_stands_in_the_json(tmp_path: Any) -> None:
    report = whole(
        hosts(6),
        FabricSettings(scope="all"),
        lambda a, b, _: None if (a, b) == ("h0", "h1") else 90.0 if "h3" in {a, b} else 392.0,
    )
    loaded = document_in(report | {"notes": ["<script>alert(1)</script>"]}, "it")
    text = "\n".join("".join(part for part, _ in line) for line in report_lines(fabric_tables(loaded, Asked()), 100))
    assert "host h3 is slow" in text
    assert " x " in text
    assert max(map(len, text.splitlines())) <= 100
    narrow = "\n".join("".join(part for part, _ in line) for line in report_lines(fabric_tables(loaded, Asked()), 22))
    assert "too many hosts" in narrow
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    write_html(loaded, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "<svg" in page
    assert "host h3 is slow" in page
    assert "<script>" not in page


@pytest.mark.parametrize(
    ("second", "told"),
    [
        (found(verbs_device("mlx5_0", state="1: DOWN", phys_state="3: Disabled")), "h1: mlx5_0 is DOWN, Disabled"),
        (found(verbs_device("mlx5_0"), tools=("iperf3",)), "h1 has no ib_write_bw (package perftest)"),
        (found(), "h1 has no RDMA device"),
    ],
)
def test_that_tcp_stands_in_for_rdma_is_said_with_the_reason(second: dict[str, Any], told: str) -> None:
    replies = [
        reply("h0", found(verbs_device("mlx5_0"))),
        reply("h1", second | {"addresses": found(address="10.0.0.2")["addresses"]}),
    ]
    fabric = fabric_of(replies, FabricSettings())
    assert fabric.tool == "iperf3"
    (note,) = fabric.notes
    assert told in note
    assert "says nothing of RDMA" in note


@pytest.mark.parametrize("settings", [FabricSettings(), FabricSettings(tool="iperf3")])
def test_nothing_is_said_of_rdma_where_there_is_none_or_tcp_was_asked_for(settings: FabricSettings) -> None:
    devices = [verbs_device("mlx5_0")] if settings.tool == "iperf3" else []
    replies = [reply(f"h{number}", found(*devices, address=f"10.0.0.{number + 1}")) for number in range(2)]
    assert fabric_of(replies, settings).notes == ()


def test_gpu_memory_on_is_what_it_says_also_where_yaml_made_it_true() -> None:
    assert [settings_from({"gpu_memory": value}).gpu_memory for value in ("on", True, "off", False)] == [
        "on", "on", "off", "off",
    ]  # fmt: skip
    with pytest.raises(UsageError, match="fabric_seconds is True"):
        settings_from({"seconds": True})


def test_it_is_said_by_which_way_gpu_memory_was_used() -> None:
    def with_gpu(number: int, options: str, vendor: str = "nvidia") -> Reply:
        end = found(verbs_device("mlx5_0"), address=f"10.0.0.{number}")
        tool = end["tools"]["ib_write_bw"] | {"help": options}
        path = "/sys/devices/pci0000:15/0000:16:00.0"
        return reply(
            f"h{number}", end | {"gpus": [path], "gpu_vendor": vendor, "tools": end["tools"] | {"ib_write_bw": tool}}
        )

    newer, older = "--use_cuda=<id>\n--use_cuda_dmabuf", "--use_cuda=<id>"
    replies = [with_gpu(1, newer), with_gpu(2, newer), with_gpu(3, older), with_gpu(4, "")]
    notes = fabric_of(replies, FabricSettings(gpu_memory="auto")).notes
    assert "GPU memory was used by DMA-BUF on h1, h2" in notes
    assert any(note.startswith("GPU memory was used by nvidia-peermem") and note.endswith("on h3") for note in notes)
    assert any(note.startswith("host memory was used on h4") for note in notes)
    rocm = [with_gpu(number, options.replace("cuda", "rocm"), "amd") for number, options in ((1, newer), (2, older))]
    planned = fabric_of(rocm, FabricSettings(gpu_memory="on"))
    assert [note.partition(" (")[0] for note in planned.notes if "GPU memory" in note] == [
        "GPU memory was used by DMA-BUF on h1", "GPU memory was used by amdgpu's peer memory",
    ]  # fmt: skip
    assert fabric_of(replies, FabricSettings()).notes == ()
    with pytest.raises(UsageError, match="ib_write_bw of h4 is built without --use_cuda"):
        fabric_of(replies, FabricSettings(gpu_memory="on"))


def test_gpu_memory_that_tcp_cannot_use_is_refused_or_said() -> None:
    without = [reply(f"h{number}", found(tools=("iperf3",), address=f"10.0.0.{number}")) for number in range(3)]
    with pytest.raises(UsageError, match="GPU memory was asked for, but iperf3 sends from host memory only"):
        fabric_of(without, FabricSettings(gpu_memory="on"))
    assert "host memory was used: iperf3 knows no other" in fabric_of(without, FabricSettings(gpu_memory="auto")).notes
    assert fabric_of(without, FabricSettings()).notes == ()


def noisy(spread: float, middle: float = 5.0, seed: int = 1) -> Callable[[str, str, str], float]:
    source = random.Random(seed)
    return lambda *_: middle * source.lognormvariate(0, spread)


@pytest.mark.parametrize("seed", range(5))
def test_on_a_noisy_machine_without_link_rates_hardly_a_test_of_ten_hosts_fails(seed: int) -> None:
    report = whole(hosts(10, rate=""), FabricSettings(), noisy(0.5, seed=seed))
    failed = sum(pair["verdict"] == "fail" for pair in report["pairs"])
    assert failed <= 2  # 40 tests; by the median of the hosts' best pairs it was up to 20
    assert (report["verdict"] == "critical") == (failed > 0)
    assert (EXIT_CODES[report["verdict"]] == 1) == any(one["verdict"] == "fail" for one in report["suspects"])


def test_a_fabric_mostly_below_its_links_is_one_finding_and_no_nic_is_blamed() -> None:
    speed = noisy(0.03, 200.0)
    report = whole(hosts(10), FabricSettings(), lambda *ends: 380.0 if ends[0] == "h0" else speed(*ends))
    assert summaries(report) == [("fabric", [], True)]
    summary = report["suspects"][0]["summary"]
    assert summary == report["verdict_reason"]
    assert "36 of 40 tests on rail mlx5_0 are below what its links carry" in summary
    assert (report["verdict"], {host["verdict"] for host in report["hosts"]}) == ("critical", {"pass"})
    assert sum(pair["verdict"] == "warn" for pair in report["pairs"]) == 36


def test_a_host_that_is_slower_still_is_named_beside_the_whole_fabric() -> None:
    report = whole(hosts(10), FabricSettings(), lambda a, b, _: 60.0 if "h3" in {a, b} else 200.0)
    assert summaries(report) == [("fabric", [], True), ("host", ["h3"], True)]
    assert [host["name"] for host in report["hosts"] if host["verdict"] == "fail"] == ["h3"]


def test_three_slow_hosts_of_ten_are_three_hosts_and_not_the_fabric() -> None:
    slow = {"h1", "h4", "h7"}
    report = whole(hosts(10), FabricSettings(scope="all"), lambda a, b, _: 150.0 if slow & {a, b} else 392.0)
    assert [one["hosts"] for one in report["suspects"]] == [["h1"], ["h4"], ["h7"]]


def test_typical_is_what_a_typical_pair_reaches_and_not_what_the_best_do() -> None:
    speed = noisy(0.4, seed=3)
    report = whole(hosts(12, rate=""), FabricSettings(scope="all"), speed)
    figures = sorted(pair["value"] for pair in report["pairs"])
    below = sum(value < report["pairs"][0]["typical"] for value in figures) / len(figures)
    assert 0.4 < below < 0.65  # of the best pairs it was 0.95


def test_two_hosts_that_are_slow_for_their_link_are_a_problem() -> None:
    report = whole(hosts(2), FabricSettings(), lambda *_: 100.0)
    assert report["verdict"] == "critical"


def test_a_pair_that_was_slow_once_and_good_when_repeated_fails_nothing() -> None:
    calls: dict[tuple[str, str], int] = {}

    def once(a: str, b: str, _: str) -> float:
        calls[a, b] = calls.get((a, b), 0) + 1
        return 100.0 if {a, b} == {"h1", "h2"} and calls[a, b] == 1 else 392.0

    report = whole(hosts(6), FabricSettings(scope="all"), once)
    assert [(one["kind"], one["verdict"]) for one in report["suspects"]] == [("passed", "warn")]
    assert (report["verdict"], {pair["verdict"] for pair in report["pairs"]}) == ("warning", {"pass", "warn"})


def test_hosts_that_did_not_answer_for_one_reason_are_one_problem() -> None:
    """Though the advice names the host."""
    dead = [
        replace(reply(f"d{number}", None), problem=f"connect to host 10.1.0.{number} port 22: Connection refused")
        for number in range(30)
    ]
    report = whole([*hosts(4), *dead], FabricSettings(scope="all"), lambda *_: 392.0)
    stream = io.StringIO()
    print_document(document_in(report, "it"), stream, width=200, files=[])
    lines = stream.getvalue().splitlines()
    (problem,) = [number for number, line in enumerate(lines) if "error: " in line]
    assert lines[problem] == "# error: 30 hosts (d[0-29]): connection refused: no sshd on that port"
    assert "on HOST: systemctl status sshd" in lines[problem + 1]


def test_the_terminal_begins_and_ends_with_the_verdict() -> None:
    report = whole(hosts(4), FabricSettings(scope="all"), lambda *_: 392.0)
    stream = io.StringIO()
    print_document(document_in(report, "it"), stream, width=80, files=[("report", Path("/runs/fabric.json"))])
    lines = stream.getvalue().splitlines()
    assert lines[0] == lines[-1] == "# VERDICT: OK: 12 tests between 4 hosts, none slow"


def on_machine(name: str, address: str, boot: str, network: str, gid: str = "") -> Reply:
    nics = [verbs_device("mlx5_0", gids=[{"index": 0, "gid": gid, "type": None, "netdev": None}])] if gid else []
    ids = {"boot_id": boot, "network_id": f"{boot} {network}" if network else ""}
    return reply(name, found(*nics, address=address) | ids)


def problems_of(report: dict[str, Any]) -> dict[str, list[str]]:
    return {host["name"]: [problem["seen"] for problem in host["problems"]] for host in report["hosts"]}


def test_a_host_under_two_names_is_never_measured_against_itself() -> None:
    replies = [on_machine("a", "10.0.0.1", "x", "net:[1]"), on_machine("alias", "10.1.0.1", "x", "net:[1]"),
               on_machine("b", "10.0.0.2", "y", "net:[1]")]  # fmt: skip
    report = whole(replies, FabricSettings(tool="iperf3"), lambda *_: None)
    ends = {frozenset((pair["source"]["host"], pair["destination"]["host"])) for pair in report["pairs"]}
    assert ends == {frozenset({"a", "b"})}
    assert problems_of(report)["alias"] == ["it is the same host as a, under another name: one boot, one network"]


@pytest.mark.parametrize(
    ("replies", "reason"),
    [
        (
            [on_machine("a", "10.0.0.1", "x", "net:[1]"), on_machine("alias", "10.1.0.1", "x", "net:[1]")],
            "alias: it is the same host as a, under another name",
        ),
        (  # the address of a management NIC, say, that is the same everywhere
            [on_machine("a", "169.254.95.120", "x", "net:[1]"), on_machine("b", "169.254.95.120", "y", "net:[1]")],
            "a: its address 169.254.95.120 is also that of b",
        ),
        (  # nothing is known of the boots
            [on_machine("a", "10.0.0.1", "", ""), on_machine("alias", "10.0.0.1", "", "")],
            "a: its address 10.0.0.1 is also that of alias",
        ),
        (  # containers with a network each, and one NIC for both
            [on_machine("a", "10.0.0.1", "x", "net:[1]", "fe80::1"),
             on_machine("b", "10.0.0.2", "x", "net:[2]", "fe80::1")],
            "b: its RDMA NICs are those of a",
        ),
    ],
)  # fmt: skip
def test_two_names_of_one_host_alone_leave_nothing_to_measure(replies: list[Reply], reason: str) -> None:
    report = whole(replies, FabricSettings(), lambda *_: 392.0)
    assert (report["verdict"], EXIT_CODES[report["verdict"]], report["pairs"]) == ("incomplete", 3, [])
    assert reason in report["verdict_reason"]


@pytest.mark.parametrize(
    "replies",
    [
        [on_machine("a", "10.0.0.1", "x", "net:[1]"), on_machine("b", "10.0.0.2", "x", "net:[2]")],  # containers
        [on_machine("a", "10.0.0.1", "x", "net:[1]"), on_machine("b", "10.0.0.2", "y", "net:[1]")],  # same number
        [on_machine("a", "10.0.0.1", "", ""), on_machine("b", "10.0.0.2", "", "")],  # nothing is known
        [on_machine("a", "10.0.0.1", "x", "net:[1]", "::1"), on_machine("b", "10.0.0.2", "y", "net:[1]", "::1")],
        [on_machine("a", "10.0.0.1", "x", "net:[1]", "::1"), on_machine("b", "10.0.0.2", "x", "net:[2]", "::2")],
    ],
)
def test_containers_and_hosts_of_which_nothing_is_known_are_hosts_of_their_own(replies: list[Reply]) -> None:
    fabric = fabric_of(replies, FabricSettings())
    assert (fabric.names, fabric.problems) == (("a", "b"), ())
