"""What the checks of a host mean for its node: every check has a row, unknown is never healthy, drain outranks all."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from raybench.documents.part import document_as
from raybench.documents.preflight import CheckResult, PreflightReport
from raybench.preflight.checks import CHECKS
from raybench.preflight.node_table import ACTIONS, NODE_TABLE, decisive_checks, row_of
from raybench.preflight.node_tests.plan import NAMES as NODE_TESTS
from raybench.preflight.node_verdict import node_verdict
from raybench.preflight.report import OVER_ALL, Gathered, build_report
from raybench.verdicts import CheckVerdict
from tests.conftest import REPOSITORY

from . import recorded
from .hosts import facts, files, host, result, value

NAMES = (*(check.name for check in CHECKS), *OVER_ALL, *NODE_TESTS)


def checks(**verdicts: CheckVerdict) -> list[CheckResult]:
    """Every decisive check passed, but for these."""
    own = {name.replace("_", "-"): verdict for name, verdict in verdicts.items()}
    return [CheckResult(check=name, verdict="pass") for name in decisive_checks() if name not in own] + [
        CheckResult(check=name, verdict=verdict, seen=f"{name} was seen") for name, verdict in own.items()
    ]


def with_result(one: CheckResult) -> list[CheckResult]:
    """Every other decisive check passed."""
    return [*(other for other in checks() if other.check != one.check), one]


@pytest.mark.parametrize("name", NAMES)
def test_every_check_says_what_it_means_for_a_node(name: str) -> None:
    row = row_of(name)
    assert row is not None, f"put {name} into NODE_TABLE of raybench/preflight/node_table.py"
    assert row.action in ACTIONS


def test_the_table_has_rows_of_checks_alone() -> None:
    concerns = {name.partition("-")[0] for name in NAMES}
    assert set(NODE_TABLE) <= {*NAMES, *concerns}
    assert set(decisive_checks()) <= set(NAMES), "a concern cannot be decisive: nothing is called so"


def test_the_tags_that_commands_name_are_those_of_configure() -> None:
    pages = [path.read_text() for path in (REPOSITORY / "playbooks/roles").glob("*/README.md")]
    words = {
        word.strip()
        for page in pages
        for line in re.findall(r"^Tags: ([^.]+)\.", page, re.MULTILINE)
        for word in line.split(",")
    }
    used = {tag for row in NODE_TABLE.values() for tag in row.command.partition("--tags ")[2].split(",") if tag}
    assert used
    assert used <= words


@pytest.mark.parametrize(
    ("verdicts", "state", "first"),
    [
        ({}, "healthy", None),
        ({"gpu_ecc": "fail"}, "drain", ("gpu-ecc", "reset-gpu")),
        ({"gpu_ecc": "skipped"}, "healthy", None),
        ({"gpu_ecc": "unknown"}, "unknown", ("gpu-ecc", "look")),
        ({"gpu_ecc": "error"}, "unknown", ("gpu-ecc", "look")),
        ({"gpu_ecc": "unknown", "gpu_temperature": "warn"}, "unknown", ("gpu-ecc", "look")),
        ({"gpu_ecc": "unknown", "gpu_rows": "fail"}, "drain", ("gpu-rows", "reset-gpu")),
        ({"gpu_temperature": "warn"}, "degraded", ("gpu-temperature", "look")),
        ({"gpu_temperature": "unknown"}, "healthy", None),
        ({"host_governor": "warn"}, "healthy", None),
        ({"drift_system": "warn"}, "degraded", ("drift-system", "look")),
        ({"drift_hardware": "fail"}, "degraded", ("drift-hardware", "look")),
        ({"software_torch": "fail"}, "degraded", ("software-torch", "reconfigure")),
        ({"nobody-knows": "fail"}, "unknown", ("nobody-knows", "look")),
        ({"rdma_port": "fail"}, "drain", ("rdma-port", "replace-cable")),
    ],
)  # fmt: skip
def test_state_and_first_reason(verdicts: dict[str, CheckVerdict], state: str, first: tuple[str, str] | None) -> None:
    found = node_verdict("gpu-07", checks(**verdicts))
    assert found.state == state
    assert (found.reasons[0].check, found.reasons[0].action) == first if first else found.reasons == ()


def test_what_was_not_looked_at_leaves_a_node_unknown_but_what_was_skip_by_name_does_not() -> None:
    few = [CheckResult(check="host-reachable", verdict="pass"), CheckResult(check="gpu-ecc", verdict="pass")]
    assert node_verdict("a", few).state == "unknown"
    unseen = {reason.check for reason in node_verdict("a", few).reasons}
    assert unseen == set(decisive_checks()) - {"host-reachable", "gpu-ecc"}
    assert node_verdict("a", few, skip=["gpu", "host-probe", "host-log", "rdma-port"]).state == "healthy"
    assert node_verdict("a", few, skip=["gpu", "host-probe", "rdma-port"]).state == "unknown"
    assert node_verdict("a", []).state == "unknown"
    bad = [*few, CheckResult(check="gpu-rows", verdict="fail")]
    assert node_verdict("a", bad).state == "drain"


TESTS = ("test-run", "test-load", "test-gemm-exact", "test-gemm-repeat", "test-gemm-speed")


@pytest.mark.parametrize(
    ("verdicts", "tests", "state"),
    [
        ({}, (), "healthy"),
        ({}, TESTS, "unknown"),  # asked for, and nothing came
        (dict.fromkeys(TESTS, "pass"), TESTS, "healthy"),
        (dict.fromkeys(TESTS, "pass") | {"test-run": "unknown"}, TESTS, "unknown"),
        (dict.fromkeys(TESTS, "pass") | {"test-run": "error"}, TESTS, "unknown"),
        (dict.fromkeys(TESTS, "pass") | {"test-gemm-exact": "unknown"}, TESTS, "unknown"),
        (dict.fromkeys(TESTS, "pass") | {"test-gemm-repeat": "error"}, TESTS, "unknown"),
        (dict.fromkeys(TESTS, "pass") | {"test-gemm-exact": "fail", "test-run": "unknown"}, TESTS, "drain"),
        (dict.fromkeys(TESTS, "pass") | {"test-gemm-speed": "unknown"}, TESTS, "healthy"),  # none to compare with
        (dict.fromkeys(TESTS, "skipped") | {"test-run": "pass"}, TESTS, "healthy"),
    ],
)
def test_a_node_whose_tests_were_asked_for_and_are_unknown_is_unknown(
    verdicts: dict[str, CheckVerdict], tests: tuple[str, ...], state: str
) -> None:
    assert node_verdict("a", checks(**verdicts), tests=tests).state == state


def test_tests_that_were_not_begun_leave_a_node_of_level_two_unknown() -> None:
    report = built(gathered("gpu-01"), level=2)
    (one,) = report.hosts
    assert one.node is not None
    assert "test-run" in {reason.check for reason in one.node.reasons}
    assert "test-run" not in {reason.check for reason in node_of(built(gathered("gpu-01")))}
    skipped = built(gathered("gpu-01"), level=2, skip=["test"])
    assert "test-run" not in {reason.check for reason in node_of(skipped)}


@pytest.mark.parametrize("name", NODE_TESTS)
def test_a_test_that_leaves_its_node_unknown_ends_with_3_whichever_it_is(name: str) -> None:
    """Those of results do; a speed that there is nothing to compare with, as of one node alone, does not."""
    own = checks(**dict.fromkeys(NODE_TESTS, "pass") | {name: "unknown"})
    node = node_verdict("a", own, tests=NODE_TESTS)
    of_results = name.endswith(("-exact", "-repeat")) or name == "test-run"
    assert node.state == ("unknown" if of_results else "healthy")
    whole = built(gathered("a"))
    (only,) = whole.hosts
    tested = replace(whole, hosts=(replace(only, checks=tuple(own), verdict="unknown", node=node),), verdict="unknown")
    assert tested.exit_code == (3 if of_results else 0)


@pytest.mark.parametrize("verdict", ["fail", "error"])
def test_a_host_that_did_not_answer_is_unknown(verdict: CheckVerdict) -> None:
    found = node_verdict("gpu-09", [CheckResult(check="host-reachable", verdict=verdict, seen="no route to host")])
    assert (found.state, len(found.reasons), found.reasons[0].command) == ("unknown", 1, "ssh -v gpu-09 true")


def test_commands_name_the_gpu_and_quote_the_host() -> None:
    seen = "GPU 3 (00000000:3B:00.0): pending; GPU 4 (00000000:5E:00.0): pending"
    pending = CheckResult(check="gpu-rows", verdict="fail", seen=seen)
    (reason,) = node_verdict("gpu 7;x", with_result(pending)).reasons
    assert reason.command == "ssh 'gpu 7;x' sudo nvidia-smi --gpu-reset -i 00000000:3B:00.0,00000000:5E:00.0"
    (other,) = node_verdict("-oProxyCommand=x", checks(gpu_rows="fail")).reasons
    assert other.command == "ssh ./-oProxyCommand=x sudo nvidia-smi --gpu-reset"


def test_a_check_may_know_better_than_its_row() -> None:
    own = CheckResult(check="gpu-xid", verdict="fail", seen="Xid 79", effect="degraded", action="rma")
    found = node_verdict("a", with_result(own))
    assert (found.state, found.reasons[0].action, found.reasons[0].command) == (
        "degraded", "rma", "ssh a sudo nvidia-bug-report.sh"
    )  # fmt: skip
    written = own.to_json()
    assert (written["effect"], written["action"]) == ("degraded", "rma")
    assert {"effect", "action"}.isdisjoint(CheckResult(check="gpu-xid", verdict="pass").to_json())


def node_of(report: PreflightReport) -> Sequence[Any]:
    """The reasons against its only node."""
    (one,) = report.hosts
    assert one.node is not None
    return one.node.reasons


def built(*gathered: Gathered, **selection: Any) -> PreflightReport:
    return build_report(gathered, finished_at=1_000_002.0, **selection)


def gathered(name: str, **readings: object) -> Gathered:
    return Gathered(host=name, facts={**facts(readings), "hostname": name}, sent_at=999_999.0, received_at=1_000_002.0)


def test_a_report_has_the_state_of_each_node_and_is_read_back() -> None:
    dead = Gathered(host="gpu-09", reason="no route to host", unreachable=True)
    report = built(gathered("gpu-01", memlock=value([-1, -1])), dead)
    assert report.summary.nodes == {"healthy": (), "degraded": (), "drain": (), "unknown": ("gpu-01", "gpu-09")}
    content = report.to_json()
    assert content["hosts"][1]["node"]["reasons"][0]["check"] == "host-reachable"
    assert document_as(PreflightReport, content, "it") == report


def test_a_report_of_before_has_no_nodes_and_is_read() -> None:
    content = built(gathered("gpu-01")).to_json()
    del content["summary"]["nodes"], content["hosts"][0]["node"]
    report = document_as(PreflightReport, content, "it")
    assert (report.hosts[0].node, report.summary.nodes) == (None, {})


def test_a_tie_between_hosts_makes_none_degraded_and_a_majority_the_odd_one() -> None:
    def kernel(name: str, release: str) -> Gathered:
        return gathered(name, kernel_release=value(release))

    tie = built(kernel("a", "6.1"), kernel("b", "6.2"))
    assert any(entry.attribute == "kernel" for entry in tie.drift)
    assert {one.effect for host in tie.hosts for one in host.checks if one.check == "drift-system"} == {"nothing"}
    odd = built(kernel("a", "6.1"), kernel("b", "6.1"), kernel("c", "6.2"))
    kinds = [
        {reason.check for reason in host.node.reasons if reason.effect == "degraded"} for host in odd.hosts if host.node
    ]
    assert kinds == [set(), set(), {"drift-system"}]


def _xid(number: int) -> dict[str, Any]:
    gpu = {"devices": value({"/dev/nvidia0": True}), **files(proc={"/proc/uptime": "20000.0 1.0"})}
    return {"dmesg": recorded.DMESG_XID.format(number=number), **gpu}


def _sxid(kind: str) -> dict[str, Any]:
    return _xid(79) | {"dmesg": recorded.DMESG_SXID.format(kind=kind)}


def _said(text: str) -> dict[str, Any]:
    return {"dmesg": text, **files(proc={"/proc/uptime": "20000.0 1.0"})}


AMD = "0000:05:00.0 Processing accelerators [1200]: AMD/ATI Aqua Vanjaram [Instinct MI300X] [1002:74a1]\n"


@pytest.mark.parametrize(
    ("name", "readings", "state", "action"),
    [
        ("gpu-xid", _xid(79), "drain", "reboot"),
        ("gpu-xid", _xid(13), "healthy", None),  # an error of the application
        ("gpu-xid", _xid(48), "drain", "reset-gpu"),
        ("gpu-xid", _sxid("Fatal"), "drain", "reset-gpu"),
        ("gpu-xid", _sxid("Non-fatal"), "degraded", "reset-gpu"),
        ("host-log", _said("[19999.0] mce: [Hardware Error]: CPU 3: Machine Check Exception: 5"), "drain", "look"),
        ("host-log", _said("[19999.0] Out of memory: Killed process 12 (python)"), "healthy", None),
        ("host-log", _said("[19999.0] blk_update_request: I/O error, dev sda"), "degraded", "look"),
        ("host-log", {"dmesg": {"status": "denied", "error": "Operation not permitted"}}, "unknown", "look"),
        ("gpu-driver", {"lspci": AMD}, "unknown", "look"),
    ],
)
def test_what_a_host_says_makes_its_state(name: str, readings: dict[str, Any], state: str, action: str | None) -> None:
    found = node_verdict("a", with_result(result(name, host(readings))))
    assert (found.state, found.reasons[0].action if found.reasons else None) == (state, action), found


@pytest.mark.parametrize(
    ("old", "new", "action"),
    [
        ("Remapping Failure Occurred     : No", "Remapping Failure Occurred     : Yes", "rma"),
        ("Pending                        : No", "Pending                        : Yes", "reset-gpu"),
    ],
)
def test_rows_that_failed_are_an_rma_and_pending_ones_a_reset(old: str, new: str, action: str) -> None:
    pattern = re.compile(re.sub(r"\s+:\s+", r"\\s+:\\s+", old))
    assert pattern.search(recorded.SMI_A100), old
    text = pattern.sub(new, recorded.SMI_A100, count=1)
    found = node_verdict(
        "a", with_result(result("gpu-rows", host({"nvidia_smi": text, "devices": value({"/dev/nvidia0": True})})))
    )
    assert (found.state, found.reasons[0].action) == ("drain", action)
