"""Samples of other tools: each format as documented, times and hosts never guessed, and what it makes of a run."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

import raybench
from raybench.cli.samples import command
from raybench.documents.run.cluster import NodeInfo
from raybench.documents.run.node_samples import NodeSamples
from raybench.errors import UsageError
from raybench.reports.builders import asked
from raybench.timeline.importing.formats import FORMATS, format_of
from raybench.timeline.importing.host_names import nodes_of_hosts
from raybench.timeline.importing.sample import ImportedFileError
from tests.timeline.runs import collective, run_of, training

FILES = Path(__file__).parent / "imported"
STARTED = "2026-11-23T02:00:00+00:00"
START = 1795399200  # the same
FORMAT_OF = {
    "dmon-dt.txt": "nvidia-smi dmon",
    "dmon-t.txt": "nvidia-smi dmon",
    "dmon-plain.txt": "nvidia-smi dmon",
    "dcgmi-dmon.txt": "dcgmi dmon",
    "federate.prom": "Prometheus' text format",
    "range-query.json": "a Prometheus range query",
    "agent.jsonl": "the file of raybench agent -o",
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of two nodes with an all_reduce from 10 to 20 s and from 30 to 40 s, and a training."""
    monkeypatch.setattr(asked, "has_matplotlib", lambda: False)  # plots have tests of their own
    result = replace(
        run_of(collective((0.10, 0.16)), training([0.1] * 300, begin=52.0)),
        started_at=STARTED,
        finished_at="2026-11-23T02:01:30+00:00",
    )
    (tmp_path / "result.json").write_text(json.dumps(result.to_json()))
    return tmp_path


def do(run: Path, names: Sequence[str], *options: str) -> Result:
    files = [str(FILES / name) if (FILES / name).exists() else name for name in names]
    return CliRunner().invoke(command, ["import", str(run), *files, *options])


def imported(run: Path, *names: str, options: Sequence[str] = ()) -> NodeSamples:
    done = do(run, names, *options)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    samples = raybench.load(run / "node_samples.json")
    assert isinstance(samples, NodeSamples)
    return samples


@pytest.mark.parametrize("name", sorted(FORMAT_OF))
def test_each_file_is_taken_for_what_it_is(name: str) -> None:
    assert format_of((FILES / name).read_text(), name).title == FORMAT_OF[name]


def test_every_format_has_a_file() -> None:
    assert {one.title for one in FORMATS} == set(FORMAT_OF.values())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dmon-dt.txt", ("--timezone", "Europe/Berlin")),
        ("dmon-dt.txt", ("--timezone", "+01:00")),
        ("dmon-t.txt", ("--timezone", "Europe/Berlin")),
        ("dmon-plain.txt", ("--begin", "2026-11-23T02:00:12Z", "--interval", "1")),
    ],
)
def test_dmon_is_on_the_clock_of_the_run(run: Path, name: str, options: tuple[str, ...]) -> None:
    (node,) = imported(run, name, options=("--node", "node-1", *options)).nodes
    assert node.name == "node-1"
    assert node.seconds == (12.0, 13.0, 14.0)
    assert node.values("gpu/0/power_watts") == [682, 690, 688]
    assert node.values("gpu/1/utilization_percent") == [98, 97, None], "a dash is missing, no 0"
    assert node.values("gpu/0/temperature_celsius") == [61, 61, 62]
    assert node.clock.bound_seconds is None


def test_dmon_has_memory_in_bytes_and_lowered_clocks(run: Path) -> None:
    (node,) = imported(run, "dmon-dt.txt", options=("--node", "node-1", "--timezone", "+01:00")).nodes
    assert node.values("gpu/0/memory_used_bytes") == [71234 * 2**20] * 3
    assert node.values("gpu/1/throttle_thermal") == [0, 1, 1]


def test_dcgmi_dmon_needs_its_begin_and_interval(run: Path) -> None:
    refused = do(run, ["dcgmi-dmon.txt"], "--node", "node-0")
    assert isinstance(refused.exception, UsageError)
    assert "has no times: give --begin" in str(refused.exception)
    options = ("--node", "node-0", "--begin", "2026-11-23T02:00:10+00:00", "--interval", "5")
    (node,) = imported(run, "dcgmi-dmon.txt", options=options).nodes
    assert node.seconds == (10.0, 15.0)
    assert node.values("gpu/0/power_watts") == [185.3, 190.25]
    assert node.values("gpu/1/memory_used_bytes") == [28456 * 2**20, None]


def test_a_range_query_names_its_hosts_and_shows_a_port_that_made_a_launch_slow(run: Path) -> None:
    done = do(run, ["range-query.json"])
    assert done.exit_code == 1
    assert "CRITICAL: node-1 mlx5_3:1: symbol errors +4,100 during all_reduce 1G, busbw 38% below" in done.output
    assert "left out of" in done.output
    assert "node_scrape_collector_duration_seconds" in done.output
    result = raybench.load(run)
    assert (result.conclusion.verdict, result.exit_code) == ("critical", 1)
    assert result.findings[-1].rule == "port-errors-while-measured"
    assert "Nodes over time" in (run / "report.html").read_text()
    samples = raybench.load(run / "node_samples.json")
    assert [node.name for node in samples.nodes] == ["node-0", "node-1"], "gpu-99 is not a node of the run"
    again = do(run, ["range-query.json"])
    assert "--overwrite" in str(again.exception)
    assert do(run, ["range-query.json"], "--overwrite").exit_code == 1
    assert len(raybench.load(run).findings) == len(result.findings)


def test_the_text_format_has_processors_in_one_and_blank_values_left_out(run: Path) -> None:
    node, _ = imported(run, "federate.prom").nodes
    assert node.seconds == (10.0, 25.0)
    assert node.values("host/cpu/cores") == [2, 2]
    assert node.values("host/cpu/busy_seconds") == [320.5, 350.5]
    assert node.values("gpu/0/utilization_percent") == [97, 96]
    assert node.values("gpu/0/throttle_thermal") == [0, 1]
    assert node.values("gpu/0/throttle_power_cap") == [1, 0]
    assert "gpu/0/memory_temperature_celsius" not in node.series, "DCGM's blank value is no temperature"


@pytest.mark.parametrize(
    ("text", "options", "why"),
    [
        ("what is this\n", (), "is none of: a Prometheus range query"),
        ("", (), "is none of"),
        ('{"status":"error","data":{"resultType":"matrix"}}', (), "is not an answer of a range query"),
        ('{"status":"success","data":{"resultType":"vector","result":[]}}', (), "a matrix is read, it is: vector"),
        ('{"status":"success","data":{"resultType":"matrix","result":[]}}', (), "no sample of a series"),
        ('node_load1{instance="gpu-99:9100"} 3 1795399210000\n', (), "none of its hosts \\(gpu-99\\) is a node"),
        ('node_load1{instance="node-0:9100"} 3 1795310000000\n', (), "no sample is of the time of the run"),
        ('node_load1{instance="node-0:9100"} 3\n', (), "has no times: give --begin"),
        ('node_load1{instance="node-0:9100"} 3 1795399210000\nnode_load1 {\n', (), ":2 is not a line of Prometheus"),
        ((FILES / "dmon-dt.txt").read_text(), ("--node", "node-0"), "without a zone: give --timezone"),
        ((FILES / "dmon-dt.txt").read_text(), ("--timezone", "UTC"), "give --node, one of node-0, node-1"),
        (
            (FILES / "dmon-dt.txt").read_text(),
            ("--timezone", "UTC", "--node", "x"),
            "--node x is not a node of the run",
        ),
        ((FILES / "dmon-dt.txt").read_text(), ("--timezone", "Mars", "--node", "node-0"), "--timezone Mars is none"),
        ((FILES / "dmon-dt.txt").read_text()[:-20], ("--timezone", "UTC", "--node", "node-0"), "columns, and its head"),
        ((FILES / "dcgmi-dmon.txt").read_text(), ("--node", "node-0", "--begin", "now"), "--begin now is not a time"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(
    run: Path, tmp_path: Path, text: str, options: tuple[str, ...], why: str
) -> None:
    file, before = tmp_path / "file", (run / "result.json").read_bytes()
    file.write_text(text)
    refused = do(run, [str(file)], *options)
    assert isinstance(refused.exception, UsageError)
    assert refused.exception.exit_code == 2
    with pytest.raises(UsageError, match=why):
        raise refused.exception
    assert (run / "result.json").read_bytes() == before
    assert not (run / "node_samples.json").exists()


def test_times_in_milliseconds_and_zones_out_of_range_are_said_and_no_traceback(run: Path, tmp_path: Path) -> None:
    query = json.loads((FILES / "range-query.json").read_text())
    for series in query["data"]["result"]:
        series["values"] = [[at * 1000, value] for at, value in series["values"]]
    (tmp_path / "ms.json").write_text(json.dumps(query))
    failed = do(run, [str(tmp_path / "ms.json")])
    assert isinstance(failed.exception, UsageError)
    assert "no sample is of the time of the run" in str(failed.exception)
    failed = do(run, ["dmon-t.txt"], "--node", "node-1", "--timezone", "+99999999999:00")
    assert isinstance(failed.exception, UsageError)


@pytest.mark.parametrize(("first", "seconds"), [("23:59:50", (-10.0, 5.0)), ("00:00:20", (20.0, 35.0))])
def test_times_of_day_are_those_nearest_to_the_run_on_either_side_of_midnight(
    run: Path, tmp_path: Path, first: str, seconds: tuple[float, float]
) -> None:
    after = "00:00:05" if first.startswith("23") else "00:00:35"
    text = f"#Time        gpu   pwr\n#HH:MM:SS    Idx     W\n {first}      0   682\n {after}      0   690\n"
    (tmp_path / "dmon.txt").write_text(text)
    # 02:00 UTC is midnight there
    (node,) = imported(run, str(tmp_path / "dmon.txt"), options=("--node", "node-1", "--timezone", "-02:00")).nodes
    assert node.seconds == seconds


def node(name: str, address: str = "") -> NodeInfo:
    return NodeInfo(name=name, address=address, ranks=(), gpu_count=8)


@pytest.mark.parametrize(
    ("hosts", "nodes", "found"),
    [
        ({"gpu-01.a"}, [node("gpu-01")], {"gpu-01.a": "gpu-01"}),
        ({"gpu-01"}, [node("gpu-01.a")], {"gpu-01": "gpu-01.a"}),
        ({"gpu-01.a"}, [node("gpu-01.b")], {"gpu-01.a": "gpu-01.b"}),  # one host by two domains, as some are
        ({"gpu-01.a", "gpu-01.b"}, [node("gpu-01.b")], {"gpu-01.b": "gpu-01.b"}),
        ({"gpu-01", "gpu-01.a"}, [node("gpu-01")], {"gpu-01": "gpu-01", "gpu-01.a": "gpu-01"}),
        ({"10.0.0.1", "gpu-01.a"}, [node("gpu-01", "10.0.0.1")], {"10.0.0.1": "gpu-01", "gpu-01.a": "gpu-01"}),
        ({"10.0.0.1"}, [node("10"), node("gpu-01", "10.0.0.2")], {}),
        ({"gpu-01.c"}, [node("gpu-01.a"), node("gpu-01.b")], {}),
        ({"gpu-011", "gpu"}, [node("gpu-01")], {}),
    ],
)
def test_a_host_is_a_node_by_its_name_its_address_or_its_name_in_a_domain(
    hosts: set[str], nodes: list[NodeInfo], found: dict[str, str]
) -> None:
    assert nodes_of_hosts(hosts, nodes) == found


@pytest.mark.parametrize(
    ("hosts", "nodes", "why"),
    [
        ({"gpu-01.a", "gpu-01.b"}, [node("gpu-01")], "gpu-01.a and gpu-01.b may both be node gpu-01 "),
        ({"gpu-01", "gpu-01.a", "gpu-01.b"}, [node("gpu-01")], "gpu-01.a and gpu-01.b may both be node gpu-01 "),
        ({"gpu-01.a", "gpu-01.b"}, [node("gpu-01.c")], "gpu-01.a and gpu-01.b may both be node gpu-01.c "),
        ({"gpu-01"}, [node("gpu-01.a"), node("gpu-01.b")], "gpu-01 may be node gpu-01.a or gpu-01.b "),
        ({"10.0.0.1"}, [node("a", "10.0.0.1"), node("b", "10.0.0.1")], "10.0.0.1 may be node a or b "),
    ],
)
def test_samples_that_may_be_of_one_host_or_another_are_nobodys(
    hosts: set[str], nodes: list[NodeInfo], why: str
) -> None:
    with pytest.raises(ImportedFileError, match=why):
        nodes_of_hosts(hosts, nodes)


def test_two_hosts_of_one_short_name_are_not_mixed(run: Path, tmp_path: Path) -> None:
    def lines(*domains: str) -> str:
        return "".join(
            f'node_load1{{instance="node-1{domain}:9100"}} {load} {(START + at) * 1000}\n'
            for load, domain in enumerate(domains, 1)
            for at in (10, 20)
        )

    mixed = tmp_path / "mixed.prom"
    mixed.write_text(lines(".dc1", ".dc2"))
    refused = do(run, [str(mixed)])
    assert isinstance(refused.exception, UsageError)
    assert "node-1.dc1 and node-1.dc2 may both be node node-1 of the run: give a file of one host with --node" in str(
        refused.exception
    )
    assert not (run / "node_samples.json").exists()
    one = tmp_path / "one.prom"
    one.write_text(lines(".dc1"))
    (its,) = imported(run, str(one)).nodes
    assert (its.name, its.values("host/load/one_minute")) == ("node-1", [1.0, 1.0])
