"""The report: complete whatever happened to a host, selected checks only, exit codes, and lines of text."""

import base64
import contextlib
import io
import json
import zlib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from raybench.documents.preflight import PreflightReport
from raybench.preflight import probe_answer
from raybench.preflight import report as report_module
from raybench.preflight.checks import CHECKS
from raybench.preflight.expectations import PREFIX, Expectations, read_expectations
from raybench.preflight.lines import report_lines
from raybench.preflight.probe_answer import unpack
from raybench.preflight.report import OVER_ALL, Gathered, build_report
from raybench.preflight.verdict import Judgement
from raybench.preflight.writing import write_report
from raybench.reports.html import write_html
from raybench.reports.terminal.report import print_document

from .hosts import facts, value

ROLE = Path(__file__).parents[2] / "playbooks" / "roles" / "preflight"


def fine(name: str, **readings: object) -> Gathered:
    own = {**facts({"memlock": value([-1, -1]), **readings}), "hostname": name}
    return Gathered(host=name, facts=own, sent_at=999_999.0, received_at=1_000_002.0)


def report(*hosts: Gathered, **selection: list[str]) -> PreflightReport:
    return build_report(hosts, finished_at=1_000_002.0, **selection)


DEAD = Gathered(host="gpu-09", reason="ssh: connect to host 10.0.0.9 port 22: No route to host", unreachable=True)


def test_a_host_that_did_not_answer_is_in_the_report_and_the_others_are_judged() -> None:
    built = report(fine("gpu-01"), DEAD, fine("gpu-02"))
    assert [host.host for host in built.hosts] == ["gpu-01", "gpu-09", "gpu-02"]
    assert built.status == "partial"
    assert built.summary.unreachable == ("gpu-09",)
    assert [check.check for check in built.hosts[1].checks] == ["host-reachable"]
    names = [check.check for check in built.hosts[0].checks]
    assert set(names) == {check.name for check in CHECKS} | set(OVER_ALL) - {"host-expectations"}
    assert len(names) == len(set(names))
    assert built.exit_code == 3
    assert json.loads(json.dumps(built.to_json())) == built.to_json()


def test_exit_codes() -> None:
    low = value([65536, 65536])
    assert report(fine("a")).exit_code == 0
    assert report(fine("a", memlock=low, rdma_devices=value(["mlx5_0"]))).exit_code == 1
    assert report(fine("a", memlock=low, rdma_devices=value(["mlx5_0"])), DEAD).exit_code == 1
    assert report(Gathered(host="a", reason="the module broke")).exit_code == 3


def test_a_check_that_breaks_is_an_error_and_never_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> Judgement:
        raise KeyError("rate")

    judged = [replace(check, judge=broken) if check.name == "host-memlock" else check for check in CHECKS]
    monkeypatch.setattr(report_module, "selected", lambda *_: tuple(judged))
    built = report(fine("a"))
    found = {check.check: check for check in built.hosts[0].checks}
    assert (found["host-memlock"].verdict, found["host-memlock"].seen) == ("error", "KeyError: 'rate'")
    assert {check.verdict for name, check in found.items() if name != "host-memlock"}.isdisjoint({"error"})
    assert (built.hosts[0].verdict, built.exit_code) == ("error", 3)


@pytest.mark.parametrize(
    ("only", "skip", "wanted"),
    [
        (["gpu"], [], {check.name for check in CHECKS if check.concern == "gpu"}),
        (["host-memlock"], [], {"host-memlock"}),
        (["drift"], [], {name for name in OVER_ALL if name.startswith("drift")}),
        (["host-ports"], [], {"host-ports"}),
        (["pci", "drift-limits"], ["pci-acs", "pci-ats", "pci-mrr"], {"pci-link", "pci-iommu", "drift-limits"}),
    ],
)  # fmt: skip
def test_checks_are_selected_by_name_or_concern(only: list[str], skip: list[str], wanted: set[str]) -> None:
    (host,) = report(fine("a"), only=only, skip=skip).hosts
    assert {check.check for check in host.checks} == wanted | {"host-reachable"}


def test_a_value_of_the_wrong_type_is_said_and_its_default_used() -> None:
    one = Gathered(host="a", facts=facts({}, shm_min_gib="plenty", gpu_count="8", drift_ignored="mtu "))
    (host,) = report(one).hosts
    (problem,) = [check for check in host.checks if check.check == "host-expectations"]
    assert problem.verdict == "error"
    assert "shm_min_gib" in problem.seen
    expected, _ = read_expectations({f"{PREFIX}gpu_count": "8", f"{PREFIX}drift_ignored": "mtu "})
    assert (expected.gpu_count, expected.drift_ignored, expected.shm_min_gib) == (8, ("mtu ",), 8.0)


def test_lines_name_the_finding_once_with_its_hosts_and_advice() -> None:
    low = {"memlock": value([65536, 65536]), "rdma_devices": value(["mlx5_0"])}
    lines = report_lines(report(*(fine(f"node{number:02}", **low) for number in range(12)), DEAD), path="/runs/x.json")
    (finding,) = [line for line in lines if line.startswith("FAIL host-memlock")]
    assert finding.startswith("FAIL host-memlock on node[00-11] (12 hosts): 64 KiB")
    assert "raybench configure --tags memlock" in lines[lines.index(finding) + 1]
    assert any("gpu-09" in line and "no route to the host" in line for line in lines)
    assert lines[-1] == "report: /runs/x.json"


def test_hosts_that_did_not_answer_for_one_reason_are_one_finding() -> None:
    """Though the advice names the host, and each host's reason its address."""
    dead = [
        replace(DEAD, host=f"gpu-{number}", reason=f"ssh: connect to host 10.0.0.{number} port 22: Connection refused")
        for number in range(10, 50)
    ]
    built = report(*dead, replace(DEAD, host="gpu-70"))
    first, advice, other, one, *_ = report_lines(built)
    assert first.startswith("FAIL host-reachable on gpu-[10-49] (40 hosts): connection refused")
    assert "-> on HOST: systemctl status sshd" in advice
    assert other.startswith("FAIL host-reachable on gpu-70: no route to the host")
    assert "HOST" not in one
    stream = io.StringIO()
    print_document(built, stream)
    lines = stream.getvalue().splitlines()
    assert (
        lines[0]
        == lines[-1]
        == "# VERDICT: FAIL: 41 hosts: 41 failed (gpu-[10-49,70]), 41 without an answer (gpu-[10-49,70])"
    )
    assert [line for line in lines if line.startswith("# FAIL host-reachable on gpu-")] == [f"# {first}", f"# {other}"]


@pytest.mark.parametrize(("names", "totals"), [(("a",), "1 host: 0 failed"), (("a", "b"), "2 hosts: 0 failed")])
def test_one_host_is_no_plural(names: tuple[str, ...], totals: str) -> None:
    assert any(line.startswith(totals) for line in report_lines(report(*map(fine, names))))


def test_control_characters_of_a_host_reach_no_terminal() -> None:
    odd = Gathered(host="a", reason="\x1b[2J\nFAIL host-os on b: faked", unreachable=True)
    lines = report_lines(report(odd))
    assert not any("\x1b" in line or "\n" in line for line in lines)


def test_packed_facts_come_back_and_damaged_ones_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = pack(facts({"memlock": value([1, 2])}))
    assert unpack(packed) == facts({"memlock": value([1, 2])})
    for broken in (packed[:-8], "nonsense!", base64.b64encode(b"nonsense").decode()):
        with pytest.raises(ValueError, match="the probe's answer is damaged"):
            unpack(broken)
    monkeypatch.setattr(probe_answer, "_MOST_BYTES", 1000)
    with pytest.raises(ValueError, match="it is cut off, or has more than"):
        unpack(pack(["0" * 10_000_000]))


JUNK: tuple[Any, ...] = (
    None,
    [],
    {},
    "x",
    -1,
    10**400,
    [None],
    {"a": None},
    {"status": "ok"},
    {"status": "", "value": 7},
)


@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: repr(junk)[:20])
@pytest.mark.parametrize(
    "path",
    [(), ("clock",), ("readings",), ("reached",), ("expectations",), ("readings", "memlock"), ("readings", "mounts"),
     ("readings", "file_systems", "value"), ("readings", "addresses", "value"), ("readings", "proc", "values")],
)  # fmt: skip
def test_facts_of_another_form_spoil_no_report(path: tuple[str, ...], junk: Any) -> None:
    hostile: Any = {"": json.loads(json.dumps(fine("b").facts))}
    place = hostile
    for name in ("", *path)[:-1]:
        place = place.setdefault(name, {})
    place[("", *path)[-1]] = junk
    other = Gathered(host="b", reason="the probe's answer is damaged")
    with contextlib.suppress(ValueError):
        other = Gathered(host="b", facts=unpack(pack(hostile[""])), sent_at=0.0, received_at=1.0)
    assert [host.reached for host in report(fine("a"), other).hosts] == [True, other.facts is not None]


def pack(content: Any) -> str:
    """As the probe module does it."""
    return base64.b64encode(zlib.compress(json.dumps(content).encode())).decode()


def test_the_report_is_written_whole(tmp_path: Path) -> None:
    path = write_report(report(fine("a")), tmp_path / "new" / "folder")
    assert json.loads(path.read_text())["schema"] == "raybench.preflight/1"
    assert [one.name for one in path.parent.iterdir()] == ["preflight.json"]


def test_the_roles_defaults_are_those_of_the_checks() -> None:
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
    options = yaml.safe_load((ROLE / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    assert set(defaults) == set(options)
    expected, problems = read_expectations(defaults)
    assert problems == ()
    assert expected == Expectations()
    assert {PREFIX + item.name for item in fields(Expectations)} <= set(defaults)
    for name, option in options.items():
        assert option.get("default") == defaults[name], name


def test_a_name_that_is_no_text_does_not_cost_the_report(tmp_path: Path) -> None:
    odd = "eth\udcff"  # an interface may be called by any bytes
    sizes = {"net": {"status": "ok", "values": {f"/sys/class/net/{odd}/mtu": "1500"}}}
    one = Gathered(
        host="a", facts=facts({"addresses": {"status": "ok", "value": {odd: "10.0.0.1"}}, **sizes}, mtu=9000)
    )
    made = report(one)
    assert "eth?" in json.loads(write_report(made, tmp_path).read_text())["hosts"][0]["checks"][_place(made)]["seen"]
    write_html(made, tmp_path / "preflight.html")
    assert "host-mtu" in (tmp_path / "preflight.html").read_text()


def _place(made: PreflightReport) -> int:
    return [check.check for check in made.hosts[0].checks].index("host-mtu")
