import errno
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from diagnostics.engine import diagnose_paths
from diagnostics.findings import Diagnosis, Evidence, Finding
from diagnostics.inputs.reader import Batch
from diagnostics.judging.consequences import fold_consequences
from diagnostics.output import FORMATS, render, report_news
from diagnostics.reading import Reading
from diagnostics.redaction import Redactor, redact_diagnosis
from raybench.errors import UsageError
from raybench.finding_rules.registry import page
from tests.diagnostics.redacted_lines import WORDS_OF_A_SITE, WORDS_OF_ALL

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
def test_hostile_text_is_escaped(hostile: Diagnosis, output_format: str) -> None:
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


def test_sarif_says_what_is_open_and_lists_no_line_twice(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("gpu-a17:100:101 [0] NCCL INFO NCCL version 2.27.5+cuda12.9\n")
    run = json.loads(render(diagnose_paths([tmp_path / "a.log"]), "sarif"))["runs"][0]
    assert run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"].startswith("unknown: ")
    run = json.loads(render(diagnose_paths([LOG]), "sarif"))["runs"][0]
    assert run["invocations"] == [{"executionSuccessful": True, "toolExecutionNotifications": []}]
    line = Evidence(file="a.log", line=3, text="gone")
    cause, one, other = (
        Finding(rule=rule, severity="critical", confidence="likely", summary="", explanation="", evidence=(line,))
        for rule in ("cuda-error", "peer-died", "run-failed")
    )
    cause = replace(cause, evidence=())
    folded = fold_consequences([cause, one, other], {"peer-died": "fold", "run-failed": "last"})
    assert [finding.victims for finding in folded] == [(line,)]


def test_text_says_the_verdict_first_and_quotes_the_line() -> None:
    lines = render(diagnose_paths([LOG]), "text").splitlines()
    assert lines[0].startswith("CRITICAL: RDMA transfers to gpu-b (10.20.0.2)")
    assert any("with status=12" in line for line in lines)
    assert "\x1b" not in "".join(lines)
    assert "\x1b[1;31mCRITICAL" in render(diagnose_paths([LOG]), "text", color=True)


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="is not an output format"):
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


NAMES = """\
gpu-a17:100:101 [0] NCCL INFO Using network IB
gpu-a17:100:101 [0] x.cc:1 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr \
state INIT, next state RTR, local GID index 3, local GID ::ffff:10.1.2.3, remote GID ::ffff:10.1.2.7
gpu-a17:100:101 [0] x.cc:1 NCCL WARN NET/IB: Got completion from peer gpu-b22.rack1.example.com<39000> with status=12 \
opcode=0 len=0 vendor err 129 (Send) localGid fe80::ba59:9fff:fe12:3456 remoteGidsfe80::ba59:9fff:fe12:3457 hca mlx5_0
gpu-a17:100:101 [0] x.cc:1 NCCL WARN NET/IB: Got completion from peer 10.1.2.7<39000> with status=12 \
opcode=0 len=0 vendor err 129 (Send) localGid ::ffff:10.1.2.3 remoteGids::ffff:10.1.2.7 hca mlx5_0
gpu-a17:100:101 [0] x.cc:1 NCCL WARN Odd: b8:59:9f:12:34:56 b859:9f03:0012:3456 (80FE/5634129FFF9F59BA) [gpu-c03]:29500
"""


@pytest.mark.parametrize("output_format", FORMATS)
@pytest.mark.parametrize("name", ["nccl-gpu-a17-10.1.2.3.log", "gpu-b22.17.log", "gpu-a17_0.log"])
def test_redaction_sees_names_wherever_they_stand(tmp_path: Path, name: str, output_format: str) -> None:
    (tmp_path / name).write_text(NAMES)
    text = render(redact_diagnosis(diagnose_paths([tmp_path / name])), output_format)
    assert not re.search(r"gpu-[abc]\d|rack1|10\.1\.2|fe80|ba59|59BA|b8:59|b859", text)
    assert "mlx5_0" in text
    assert "status=12" in text


def test_a_host_that_is_called_like_a_stand_in_stays_apart(tmp_path: Path) -> None:
    lines = "".join(
        f"host-{rank}:9:9 [0] NCCL INFO comm 0x1 rank {rank} nranks 3 cudaDev 0 nvmlDev 0 busId 1000 commId 0x7 "
        "- Init START\n"
        for rank in (0, 1, 2)
    )
    (tmp_path / "a.log").write_text(lines)
    assert [row.host for row in redact_diagnosis(diagnose_paths([tmp_path])).ranks] == ["host-1", "host-2", "host-3"]


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-02 20:27:21 [rank1] at init.cc:738",
        "libnccl.so.2 torch.nn.parallel NET/IB/0",
        "[E1218 20:27:21.426 ProcessGroupNCCL.cpp:629] c10::Error::Error(c10::SourceLocation) at job 3 of 4",
        "max_new_tokens=4096 tokens/s: 12.2 NCCL_IB_PKEY=0x7fff tokenizer: fast",
        "srun: error: Unable to create step for job 77: Invalid generic resource (gres) specification",
        "on CUDA device 1000, see https://docs.nvidia.com/deploy/xid-errors/ and https://pytorch.org/docs/x.html",
        "busId 9b000 commId 0x7f3344556677aabb comm 0x55d0aabbccdd hca mlx5_1:1 via NET/IB/3/GDRDMA",
        "transport retry counter exceeded on node 3, rank 17, Pod failed",
        "kernel: 10:00:00 error: Out of memory, 10:00:01 INFO torch.distributed.run: ",
        *WORDS_OF_ALL,
        *map(os.strerror, errno.errorcode),
    ],
)
def test_what_only_looks_like_a_name_stays(text: str) -> None:
    assert Redactor().text(text) == text


def test_reports_of_a_growing_log_share_their_stand_ins(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(NAMES)
    diagnosis = diagnose_paths([tmp_path])
    redactor, written = Redactor(), list[str]()
    for finding in reversed(diagnosis.findings):
        news = redact_diagnosis(replace(diagnosis, findings=(finding,)), redactor)
        report_news(news, written.append, "json")
    places = {place for text in written for place in re.findall(r"on dev mlx5_0:1.*?remote GID (\S+?)\"", text)}
    assert places == {f"::ffff:{redactor.text('10.1.2.7')}"}


SITE = """\
gpu-a17:100:101 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /lustre/proj-falcon/alice/topo.xml
gpu-a17:100:101 [0] NCCL INFO Using network Socket
gpu-a17:100:101 [0] /home/bob/build/nccl/src/init.cc:1 NCCL WARN Odd thing in /scratch/alice/run7/cfg, USER=carol
slurmstepd: error: *** JOB 441327 ON gpu-b22 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***
"""


@pytest.mark.parametrize("output_format", FORMATS)
def test_redaction_leaves_no_user_no_path_and_no_job(tmp_path: Path, output_format: str) -> None:
    (tmp_path / "falcon70b-alice-441.out").write_text(SITE)
    text = render(redact_diagnosis(diagnose_paths([tmp_path / "falcon70b-alice-441.out"])), output_format)
    assert not re.search(r"alice|bob|carol|falcon|lustre|scratch|441327|gpu-[ab]\d", text)
    assert "CANCELLED AT" in text
    assert output_format != "json" or re.search(r"path-\d/init\.cc", text)


IDENTIFYING = (  # a line, what must go, what must stay
    ("n1:1:1 [3] NCCL INFO Bootstrap : Using eth0:fe80::b859:9ff:fe12:3456%eth0<0>", "b859", "Using eth0:ip-1<0>"),
    ("HfHubHTTPError: 401 for url: https://hub.acme.com/api/acme/m?token=hf_AbCdEfGhIjKlMnOpQrStUv", "acme|hf_", "401"),
    ("export WANDB_API_KEY=0123456789abcdef0123", "0123456789", "export WANDB_API_KEY=secret"),
    ("Authorization: Bearer abcdefgh12345678==", "abcdefgh", "Bearer secret"),
    ('{"password": "hunter2", "level": "error"}', "hunter2", '"level": "error"'),
    ("token hf_AbCdEfGhIjKlMnOpQrStUvWxYz is refused", "hf_", "is refused"),
    (
        "Xid (PCI:0000:9b:00): 79, GPU-3f2504e0-4f89-11d3-9a0c-0305e82c3301 is gone",
        "3f2504e0",
        "PCI:0000:9b:00): 79, GPU-",
    ),
    ("MNNVL busId 0x1801000 fabric UUID 3143b15bc2cd192b.28cc9b5473fb5b93 state 3", "3143b|28cc", "busId 0x1801000"),
    (
        "Node GUID: 0x506b4b0300abcdef base lid 93 link/ether b8:59:9f:12:34:56",
        "506b4b|b8:59|93",
        "Node GUID: guid-1 base lid lid-1 link",
    ),
    ("NET/IB: Dev 0 Port 1 qpn 2281 mtu 5 GID 3 (0/2A00A8C0FFFF0000)", "2A00A8C0", "qpn 2281 mtu 5 GID 3 ("),
    ("ssh alice.smith@gpu-b18 failed", "alice|gpu-b18", "ssh user-1@host-1 failed"),
    ("alice@gpu-b: Permission denied (publickey)", "alice|gpu-b", "Permission denied"),
    ("mail of alice.smith@acme.com, uid=10231", "alice|acme|10231", "mail of"),
    ("srun: error: gpu-node-[17-19]: tasks 0-7: Exited with exit code 1", "gpu-node|17-19", ": tasks 0-7: Exited"),
    ("=   RANK 3 PID 9911 RUNNING AT gpu07", "gpu07", "RANK 3 PID 9911"),
    ("mpirun noticed that process rank 6 with PID 0 on node gpu05 exited on signal 9", "gpu05", "exited on signal 9"),
    ("#  Rank  2 Group  0 Pid 2234 on     node-b7 device  0 [0x1b] NVIDIA H100", "node-b7", "device  0 [0x1b] NVIDIA"),
    ("cannot write s3://acme-bucket/run-77/step_100: denied", "acme|run-77", "cannot write url-1"),
    ("Worker at tcp://dask-w3:39891 died", "dask-w3", "tcp://host-1:39891 died"),
    ("pod/trainer-0 evicted from ip-10-0-3-4.ec2.internal", "trainer-0|ip-10", "evicted from"),
    ("MASTER_ADDR=gpu-a1 MASTER_PORT=29500 NCCL_IB_HCA=mlx5_0", "gpu-a1", "MASTER_PORT=29500 NCCL_IB_HCA=mlx5_0"),
    ("JobId=991823 reason=NodeFail", "991823", "reason=NodeFail"),
)


@pytest.mark.parametrize(
    ("line", "gone", "stays"),
    IDENTIFYING + WORDS_OF_A_SITE,
    ids=[line[:30] for line, _, _ in IDENTIFYING + WORDS_OF_A_SITE],
)
def test_what_identifies_a_site_is_replaced_and_the_rest_can_be_read(line: str, gone: str, stays: str) -> None:
    text = Redactor().text(line)
    assert not re.search(gone, text)
    assert stays in text


EVERY_FIFTH = sorted(LOG.parents[2].glob("*/*/input.log"))[::5]
NOBODYS = {"0.0.0.0", "127.0.0.1", "172.17.0.1"}  # the last is of Docker's bridge, in what a rule says of itself


@pytest.mark.parametrize("log", EVERY_FIFTH, ids=lambda log: "/".join(log.parts[-3:-1]))
def test_redaction_leaves_no_host_and_no_address_of_a_case(log: Path) -> None:
    raw = log.read_text(errors="replace")
    hosts = set(re.findall(r"(?m)^([A-Za-z][\w.-]{2,}):\d+:\d+ \[\d+\] ", raw))
    addresses = set(re.findall(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])", raw)) - NOBODYS
    diagnosis = redact_diagnosis(diagnose_paths([log]))
    for output_format in FORMATS:
        text = render(diagnosis, output_format)
        words = set(re.findall(r"[\w-]+", text))
        assert not {host.split(".")[0] for host in hosts if not host.startswith("host-")} & words
        assert not {address for address in addresses if re.search(rf"(?<![\d.]){re.escape(address)}(?![\d.])", text)}


def test_junit_fails_a_rule_that_found_something_and_never_passes_the_unknown(tmp_path: Path) -> None:
    suite = ElementTree.fromstring(render(diagnose_paths([LOG]), "junit")).find("testsuite")
    assert suite is not None
    assert int(suite.get("failures", "0")) == len(suite.findall("testcase/failure")) > 0
    assert int(suite.get("tests", "0")) == len(suite.findall("testcase"))
    (tmp_path / "a.log").write_text("gpu-a17:100:101 [0] NCCL INFO NCCL version 2.27.5+cuda12.9\n")
    suite = ElementTree.fromstring(render(diagnose_paths([tmp_path / "a.log"]), "junit")).find("testsuite")
    assert suite is not None
    assert suite.get("errors") == "1"


def test_an_unknown_rule_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'gdr-missing'"):
        page("gdr-mising")


@pytest.mark.parametrize(("version", "told"), [("2.32.3", True), ("2.30.7", False)])
def test_what_a_release_takes_of_shared_memory_is_told_where_it_is_full(version: str, told: bool) -> None:
    reading = Reading()
    lines = (
        f"box:41:81 [0] NCCL INFO NCCL version {version}+cuda13.0",
        "box:41:81 [0] misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-A to 68420268 bytes",
    )
    reading.feed(Batch(file="a.log", block="\n".join(lines).encode(), first=True))
    reading.flush()
    assert ("68,420,268 bytes a rank" in reading.diagnosis().findings[0].explanation) is told
