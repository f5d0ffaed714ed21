"""Documents other than results: each is written and loaded by one module, what was written before included."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import raybench
from raybench.documents.fabric import FabricReport
from raybench.documents.preflight import PreflightReport
from raybench.documents.preflight_problems import problems_of
from raybench.documents.reading import DocumentError
from raybench.finding_rules.registry import all_rules
from tests.documents.mutation import REPORTS, mutated, outcome
from tests.documents.test_result import differences


def plain(document: Any) -> Any:
    return json.loads(json.dumps(document.to_json()))


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_what_earlier_commits_wrote_loads_and_loses_nothing(path: Path) -> None:
    upgraded = {"$.verdict: error became incomplete"} if path.stem == "fabric-ad9229c" else set()
    assert set(differences(json.loads(path.read_bytes()), plain(raybench.load(path)))) == upgraded


def every_object(content: Any) -> list[Any]:
    below = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return [content] * isinstance(content, dict) + [one for value in below for one in every_object(value)]


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_keys_of_a_later_raybench_are_kept_in_every_part(path: Path, tmp_path: Path) -> None:
    content = plain(raybench.load(path))
    for number, part in enumerate(every_object(content)):
        kinds = {type(value) for value in part.values()}
        if kinds <= {bool, int, str, dict} or kinds == {list}:
            continue  # a table of names: each key of it means something
        part["later"] = {"number": number}
    file = tmp_path / "document.json"
    file.write_text(json.dumps(content))
    assert plain(raybench.load(file)) == content


def test_keys_of_a_later_raybench_keep_their_order(tmp_path: Path) -> None:
    content = plain(raybench.load(REPORTS[0])) | {f"later_{number}": number for number in range(20)}
    file = tmp_path / "document.json"
    file.write_text(json.dumps(content))
    assert list(plain(raybench.load(file))) == list(content)


@pytest.mark.parametrize(
    ("sample", "keys", "value", "why"),
    [
        ("estimate-5c77f31", ("memory", "peak"), "much", "Expected `int`, got `str`"),
        ("estimate-5c77f31", ("communication", "messages", 0, "count"), None, "Expected `int`, got `null`"),
        ("fabric-5c77f31", ("pairs", 3, "source", "host"), 3, "Expected `str`, got `int`"),
        ("fabric-5c77f31", ("pairs", 1, "value"), None, "a test that passed without a figure"),
        ("preflight-dbd4ec7", ("hosts", 0, "checks", 1, "verdict"), "fine", "Invalid enum value 'fine'"),
        ("configuration-dbd4ec7", ("hosts", 0, "items", 0, "verdict"), "fine", "Invalid enum value 'fine'"),
        ("collection-dbd4ec7", ("hosts", 1, "status"), "fine", "Invalid enum value 'fine'"),
        ("preflight-dbd4ec7", ("hosts", 0, "checks", 1, "seen"), None, "Expected `str`, got `null`"),
        ("fabric-plan-c973227", ("scopes", 1, "rounds"), "many", "Expected `int`, got `str`"),
        ("cluster-c973227", ("action",), "look", "Invalid enum value 'look'"),
        ("expected-c973227", ("points", 0, "busbw_gb_per_s"), "much", "Expected `float`, got `str`"),
        ("summary-c973227", ("verdict",), "fine", "Invalid enum value 'fine'"),
        ("diagnosis-c973227", ("ranks", 0, "rank"), None, "Expected `int`, got `null`"),
        ("fabric-5c77f31", ("hosts", 2, "verdict"), "fine", "Invalid enum value 'fine'"),
    ],
)
def test_damage_is_named_with_its_place(
    sample: str, keys: tuple[Any, ...], value: Any, why: str, tmp_path: Path
) -> None:
    content = json.loads(next(path for path in REPORTS if path.stem == sample).read_bytes())
    owner = content
    for key in keys[:-1]:
        owner = owner[key]
    owner[keys[-1]] = value
    file = tmp_path / "document.json"
    file.write_text(json.dumps(content))
    keys = keys[:-1] if why.startswith("a test") else keys  # the part, which cannot be as a whole
    place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    with pytest.raises(DocumentError) as caught:
        raybench.load(file)
    assert str(caught.value).endswith(f"{file} is damaged: {why} - at `${place}`")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_a_newer_version_is_refused(path: Path, tmp_path: Path) -> None:
    content = json.loads(path.read_bytes())
    content["schema"] = content["schema"].partition("/")[0] + "/2"
    file = tmp_path / "document.json"
    file.write_text(json.dumps(content))
    with pytest.raises(DocumentError, match="newer raybench"):
        raybench.load(file)


def test_what_is_no_document_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "document.json"
    for text, why in (('{"schema": "their/1"}', "its schema is 'their/1'"), ("[]", "no schema"), ("{", "no JSON")):
        file.write_text(text)
        with pytest.raises(DocumentError, match=why):
            raybench.load(file)
    with pytest.raises(DocumentError, match="No such file"):
        raybench.load(tmp_path)


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_mutated_documents_are_refused_in_a_line_or_can_be_shown(path: Path) -> None:
    chance, document = random.Random(11), json.loads(path.read_bytes())
    found = {outcome(mutated(document, chance)) for _ in range(60)}
    assert found == {"refused", "loaded"}


def test_a_fabric_report_of_the_first_version_gets_the_verdict_of_today(tmp_path: Path) -> None:
    path = next(path for path in REPORTS if path.stem == "fabric-ad9229c")
    stored, report = json.loads(path.read_bytes()), raybench.load(path)
    assert (stored["verdict"], report.verdict, report.conclusion.exit_code) == ("error", "incomplete", 3)
    assert report.verdict_reason == stored["suspects"][0]["summary"]


def test_documents_without_a_verdict_of_their_own_end_with_what_is_in_them(tmp_path: Path) -> None:
    codes = {"fabric-plan-c973227": 0, "fabric-plan-4997980": 0, "expected-c973227": 0, "expected-23fcb72": 3}
    assert {path.stem: raybench.load(path).exit_code for path in REPORTS if path.stem in codes} == codes
    path = next(path for path in REPORTS if path.stem == "fabric-plan-c973227")
    content, file = json.loads(path.read_bytes()), tmp_path / "plan.json"
    content["simulation"]["exact"] -= 1
    file.write_text(json.dumps(content))
    assert raybench.load(file).exit_code == 1  # a planted fault was not found
    content["simulation"]["exact"] += 2
    file.write_text(json.dumps(content))
    with pytest.raises(DocumentError, match=r"21 of 20 trials found exactly - at `\$\.simulation`"):
        raybench.load(file)
    old = raybench.load(next(path for path in REPORTS if path.stem == "summary-4074527"))
    assert (old.verdict, old.conclusion.exit_code) == ("unknown", 3)  # none was written then


def test_a_fabric_report_is_no_better_than_what_is_in_it(tmp_path: Path) -> None:
    path = next(path for path in REPORTS if path.stem == "fabric-5c77f31")
    content, file = json.loads(path.read_bytes()), tmp_path / "fabric.json"
    file.write_text(json.dumps(content | {"verdict": "ok"}))
    with pytest.raises(DocumentError, match="it says ok, and something in it failed - at `\\$`"):
        raybench.load(file)
    file.write_text(json.dumps(content | {"hosts": content["hosts"][1:]}))
    with pytest.raises(DocumentError, match="a test of 'h0', which is none of its hosts"):
        raybench.load(file)


def test_a_preflight_report_is_no_better_than_what_is_in_it(tmp_path: Path) -> None:
    path = next(path for path in REPORTS if path.stem == "preflight-dbd4ec7")
    content, file = json.loads(path.read_bytes()), tmp_path / "preflight.json"
    silent = next(host for host in content["hosts"] if not host["reached"])
    assert raybench.load(path).exit_code == 1
    changes: tuple[tuple[dict[str, Any], dict[str, Any], str], ...] = (
        (content, {"verdict": "pass"}, "its verdict is pass, and the worst of its hosts fail"),
        (content, {"status": "complete"}, "it says complete, and a host was not reached"),
        (content["summary"], {"unreachable": []}, "its summary is not that of its hosts"),
        (silent["checks"][0], {"verdict": "pass"}, "its summary is not that of its hosts"),
    )
    for part, change, why in changes:
        kept = dict(part)
        part.update(change)
        file.write_text(json.dumps(content))
        with pytest.raises(DocumentError, match=why):
            raybench.load(file)
        part.update(kept)


def test_what_the_configure_playbook_writes_is_the_same_document(tmp_path: Path) -> None:
    outcome_of_item = {"item": "a.b", "verdict": "changed", "message": "", "changes": [], "diff": []}
    written = {"schema": "raybench.configure/1", "check": False, "hosts": {"n1": [outcome_of_item]}, "unreachable": []}
    file = tmp_path / "report.json"
    file.write_text(json.dumps(written))
    report = raybench.load(file)
    assert (report.exit_code, [(host.name, host.items[0].item) for host in report.hosts]) == (0, [("n1", "a.b")])
    file.write_text(json.dumps(written | {"unreachable": ["n2"]}))
    report = raybench.load(file)
    assert (report.exit_code, report.hosts[1].name, report.hosts[1].unreachable) == (3, "n2", "it was not reached")
    assert plain(report)["hosts"][1]["name"] == "n2"


def test_what_diagnose_returns_is_the_document_that_it_writes(tmp_path: Path) -> None:
    """One class: a report and a notebook show either, and what is loaded again is equal."""
    log = tmp_path / "nccl.log"
    log.write_text("gpu-a:4101:4141 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>\n" * 2)
    diagnosis = raybench.diagnose(log)
    path = tmp_path / "diagnosis.json"
    path.write_text(json.dumps(diagnosis.to_json()))
    loaded = raybench.load(path)
    assert loaded == diagnosis
    assert type(loaded) is type(diagnosis)
    assert raybench.html(diagnosis) == raybench.html(loaded)
    assert "NCCL diagnosis" in diagnosis._repr_html_()


def test_suspects_and_failed_checks_are_findings_of_rules_that_exist() -> None:
    """In documents of earlier commits, too: findings follow from what is stored."""
    known, documents = {rule.id for rule in all_rules()}, [raybench.load(path) for path in REPORTS]
    suspects = [one for report in documents if isinstance(report, FabricReport) for one in report.suspects]
    problems = [one for report in documents if isinstance(report, PreflightReport) for one in problems_of(report)]
    assert suspects
    assert {one.verdict for one in problems} >= {"fail", "warn"}
    for one in (*suspects, *problems):
        finding = one.finding
        assert finding.rule in known
        assert (finding.severity == "critical") == (one.verdict == "fail")
        assert finding.hosts == one.hosts
        assert [step.text for step in finding.recommendations] == [one.advice] * bool(one.advice)
    findings = [one for report in documents if isinstance(report, FabricReport) for one in report.findings]
    assert [one.summary for one in findings] == [one.summary for one in suspects]
    unknown = replace(suspects[0], kind="rack")  # of a later raybench
    assert unknown.finding.rule == "fabric-open"
