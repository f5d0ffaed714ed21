"""Files for Prometheus and CI, read back by Prometheus' own parser and by an XML parser."""

import math
import os
import stat
from pathlib import Path
from xml.etree import ElementTree as Tree

import pytest
from prometheus_client.parser import text_string_to_metric_families

from raybench.documents.preflight import CheckResult
from raybench.errors import IncompleteRunError, UsageError
from raybench.nodes.junit import junit
from raybench.nodes.prometheus import exposition
from raybench.services.nodes.files import write_prometheus

from .reports import dead, host, report, report_of

REPORT = report_of(
    [
        host("gpu-01", "healthy"),
        host("gpu-02", "drain"),
        host("gpu-03", "degraded"),
        host("x\\y", "unknown"),
        dead('d"\n'),
    ]
)


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = list(text_string_to_metric_families(text))
    assert all(family.type == "gauge" and family.documentation for family in families)
    assert all(sample.timestamp is None for family in families for sample in family.samples)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def one(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def test_prometheus_reads_each_state_back() -> None:
    found = samples(exposition(REPORT))
    wanted = {"gpu-01": "healthy", "gpu-02": "drain", "gpu-03": "degraded", "x\\y": "unknown", 'd"\n': "unknown"}
    for name, state in wanted.items():
        own = {other: found[one("raybench_node_state", host=name, state=other)] for other in wanted.values()}
        assert own == {other: float(other == state) for other in wanted.values()}
    reason = {"check": "gpu-rows", "verdict": "fail", "effect": "drain", "action": "rma"}
    assert found[one("raybench_node_reason", host="gpu-02", **reason)] == 1
    assert found[one("raybench_node_reachable", host='d"\n')] == 0
    assert found[one("raybench_preflight_hosts")] == 5
    assert math.isclose(found[one("raybench_preflight_finished_timestamp_seconds")], 1795435210)
    assert found[one("raybench_node_checks", host="gpu-02", verdict="fail")] == 1


def test_the_collectors_file_is_whole_readable_and_named_as_it_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "raybench.prom"
    before = os.umask(0o077)
    try:
        for states in ({"a": "healthy"}, {"a": "drain"}):
            write_prometheus(report(states), path)  # type: ignore[arg-type]
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert samples(path.read_text())[one("raybench_node_state", host="a", state="drain")] == 1
    assert [each.name for each in tmp_path.iterdir()] == ["raybench.prom"]
    with pytest.raises(UsageError, match=r"\.prom"):
        write_prometheus(REPORT, tmp_path / "raybench.txt")
    with pytest.raises(IncompleteRunError, match="cannot be written"):
        write_prometheus(REPORT, tmp_path / "none" / "raybench.prom")


def cases(text: str) -> dict[str, dict[str, str]]:
    """By suite and case what is in it: failure, error, skipped, system-out or nothing."""
    root = Tree.fromstring(text.split("\n", 1)[1])
    found = {
        suite.get("name", ""): {case.get("name", ""): next((part.tag for part in case), "") for case in suite}
        for suite in root
    }
    for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(root.get(kind, "-1")) == sum(each == tag for suite in found.values() for each in suite.values())
    assert int(root.get("tests", "-1")) == sum(map(len, found.values()))
    return found


def test_junit_fails_what_is_drained_and_passes_nothing_unknown() -> None:
    found = cases(junit(REPORT))
    assert {name: suite["node"] for name, suite in found.items()} == {
        "gpu-01": "", "gpu-02": "failure", "gpu-03": "system-out", "x\\y": "error",  'd"\n': "error"
    }  # fmt: skip
    assert found["gpu-02"]["gpu-rows"] == "failure"
    assert found["x\\y"]["gpu-ecc"] == "skipped"
    assert set(found["gpu-01"].values()) == {""}


def test_what_a_host_wrote_is_xml_all_the_same() -> None:
    hostile = CheckResult(check="gpu-rows", verdict="fail", seen="]]></failure>\x00\x1b[31m\ufffe<&\"'")
    found = cases(junit(report_of([host("h", "drain", checks=[hostile])])))
    assert found["h"]["gpu-rows"] == "failure"
