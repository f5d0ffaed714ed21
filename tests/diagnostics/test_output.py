import json
import re
from pathlib import Path

import pytest

from diagnostics.engine import diagnose_paths
from diagnostics.findings import Diagnosis
from diagnostics.output import FORMATS, render
from diagnostics.redaction import redact_diagnosis

CASES = Path(__file__).parent / "cases"
LOG = CASES / "ib-retry-exceeded" / "with_victims" / "input.log"
HOSTILE = (
    "gpu-a:1:2 [0] x.cc:1 NCCL WARN Call to ibv_reg_mr failed with error <script>alert(1)</script> Bad | `x` "
    "\x1b[31mred\x1b]0;t\x07"
    " \x00 \u202e ```` ![i](http://e.x/y.png) [l](javascript:1)\n"
    "gpu-a:1:2 [0] NCCL INFO Using network <img src=x onerror=alert(1)>\n"
)


@pytest.fixture
def hostile(tmp_path: Path) -> Diagnosis:
    (tmp_path / "a\x1b[2J<b>.log").write_text(HOSTILE)
    return diagnose_paths([tmp_path])


@pytest.mark.parametrize("output_format", FORMATS)
def test_hostile_text_stays_inert(hostile: Diagnosis, output_format: str) -> None:
    text = render(hostile, output_format)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", text)
    if output_format == "html":
        assert "<script" not in text
        assert "<img" not in text
        assert "<b>" not in text
    if output_format == "markdown":
        inside, fence = [], ""
        for line in text.splitlines():
            if re.fullmatch(r"`{3,}(text)?", line) and (not fence or line == fence):
                fence = "" if fence else line.removesuffix("text")
            elif not fence:
                inside.append(line)
        outside = "\n".join(inside)
        assert "<script" not in outside
        assert "![i](" not in outside
        assert "(javascript" not in outside.replace("\\(", "")


def test_json_follows_the_contract() -> None:
    document = json.loads(render(diagnose_paths([LOG]), "json"))
    assert document["schema"] == "raybench.diagnosis/1"
    assert {
        "verdict", "network", "gdr", "tcp_fallback", "nccl_versions", "world_size", "nodes", "ranks", "findings",
        "rules_clear", "rules_cannot_tell", "lines",
    } <= set(document)  # fmt: skip
    finding = document["findings"][0]
    assert set(finding) >= {"rule", "severity", "confidence", "summary", "explanation", "ranks", "hosts", "evidence"}
    assert set(finding["evidence"][0]) == {"file", "line", "text"}
    assert set(finding["recommendations"][0]) == {"action", "text", "commands", "link"}
    assert document["world_size"] == document["nodes"] == 2
    assert set(document["lines"]) == {"read", "nccl", "unreadable"}


def test_sarif_has_a_result_for_each_finding() -> None:
    diagnosis = diagnose_paths([LOG])
    run = json.loads(render(diagnosis, "sarif"))["runs"][0]
    assert [result["ruleId"] for result in run["results"]] == [finding.rule for finding in diagnosis.findings]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert all(place["physicalLocation"]["region"]["startLine"] >= 1 for place in result["locations"])


def test_text_says_the_verdict_first_and_quotes_the_line() -> None:
    lines = render(diagnose_paths([LOG]), "text").splitlines()
    assert lines[0].startswith("CRITICAL: RDMA transfers to gpu-b (10.20.0.2)")
    assert any("with status=12" in line for line in lines)
    assert "\x1b" not in "".join(lines)
    assert "\x1b[1;31mCRITICAL" in render(diagnose_paths([LOG]), "text", color=True)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="no output format"):
        render(diagnose_paths([LOG]), "yaml")


@pytest.mark.parametrize("output_format", FORMATS)
def test_redaction_leaves_no_name_and_no_address(output_format: str) -> None:
    text = render(redact_diagnosis(diagnose_paths([LOG])), output_format)
    assert not re.search(r"gpu-[ab]|10\.20\.0\.", text)
    assert str(LOG.parent) not in text


def test_redaction_gives_one_name_one_stand_in() -> None:
    diagnosis = redact_diagnosis(diagnose_paths([LOG]))
    hosts = {row.rank: row.host for row in diagnosis.ranks}
    assert hosts == {0: "host-1", 1: "host-2"}
    assert "host-2 (ip-1)" in diagnosis.findings[0].summary
    assert diagnosis.findings[0].evidence[0].text.startswith("host-1:4101:4141 [0] ")
