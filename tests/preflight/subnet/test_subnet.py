"""Each fault of a fabric that its tools tell of is named with node and port, and its near miss is silent."""

from pathlib import Path

import pytest

from diagnostics.findings import Finding
from raybench.preflight.subnet.formats import FORMATS, format_of
from raybench.preflight.subnet.judgement import ToldFile, judge

from .fabric import GPU1, GPU2, LEAF, SPINE, db_csv, ufm_ports

RECORDED = Path(__file__).with_name("recorded")
EVENTS = (
    "START_{table}\nScope,NodeGUID,PortGUID,PortNumber,EventName,Summary\n"
    'PORT,{guid},{guid},1,{event},"{said}"\nEND_{table}\n'
)
DUPLICATE = "-I- Discovery finished successfully\n-E- Duplicated GUIDs detection finished with errors\n-E- {said}\n"
QDR = {"active_speed": "QDR"}
LINK_ROW = '  {lid}   {port}[  ] ==( {rate} Active/  LinkUp)==>   {far}   1[  ] "h{far} mlx5_0" ({could})\n'


def found(*texts: str) -> list[Finding]:
    """What is at fault by these files."""
    files = []
    for number, text in enumerate(texts):
        known = format_of(text)
        assert known is not None
        files.append(ToldFile(name=f"f{number}", told=known.parse(text), lines=text.splitlines()))
    return list(judge(files))


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


def event(table: str, name: str, said: str = "x") -> str:
    return db_csv(events=EVENTS.format(table=table, guid=GPU1, event=name, said=said))


def links(*, slow: int, could: str) -> str:
    """iblinkinfo of a leaf with eight hosts; the first ``slow`` have one lane, and ``could`` beside them."""
    rows = [
        LINK_ROW.format(
            lid=100, port=n, far=n, rate=f"{1 if n <= slow else 4}X 25.78125 Gbps", could=could if n <= slow else " "
        )
        for n in range(1, 9)
    ]
    return "Switch: 0xb8599f0300c00010 leaf1:\n" + "".join(rows)


CASES = {
    "link slower than both ends can": (
        [db_csv({(GPU1, 1): {"LinkSpeedActv": "4"}, (LEAF, 1): {"LinkSpeedActv": "4"}})],
        ("fabric-link-rate", "critical", "gpu-01 mlx5_0 port 1 to leaf1 port 1 runs at 4x QDR"),
        [db_csv({(GPU1, 1): {"LinkSpeedActv": "4", "LinkSpeedEn": "7"}, (LEAF, 1): {"LinkSpeedActv": "4"}})],
    ),
    "link narrower than both ends can": (
        [db_csv({(GPU2, 1): {"LinkWidthActv": "1"}, (LEAF, 2): {"LinkWidthActv": "1"}})],
        ("fabric-link-rate", "critical", "gpu-02 mlx5_0 port 1 to leaf1 port 2 runs at 1x EDR"),
        [db_csv({(GPU2, 1): {"LinkWidthActv": "1", "LinkWidthEn": "1"}, (LEAF, 2): {"LinkWidthActv": "1"}})],
    ),
    "link in Init": (
        [db_csv({(GPU1, 1): {"PortState": "2"}})],
        ("fabric-port-down", "critical", "gpu-01 mlx5_0 port 1 is Init/LinkUp"),
        [db_csv({(LEAF, 7): {"PortPhyState": "3"}})],
    ),
    "symbol errors": (
        [db_csv(counters={(LEAF, 33): {"SymbolErrorCounter": "0xffff"}})],
        ("fabric-port-errors", "warning", "leaf1 port 33: symbol_error 65535"),
        [db_csv(counters={(LEAF, 33): {"SymbolErrorCounter": "12", "PortXmitWait": "0xfffffff",
                                       "PortRcvSwitchRelayErrors": "65535"}})],
    ),
    "counter that is not counted": (
        [db_csv(counters={(SPINE, 1): {"SymbolErrorCounterExt": "2040"}})],
        ("fabric-port-errors", "warning", "spine1 port 1: symbol_error 2040"),
        [db_csv(counters={(SPINE, 1): {"SymbolErrorCounterExt": "0xfffffffffffffffe", "SymbolErrorCounter": "-1"}})],
    ),
    "GUID of two nodes": (
        [db_csv(nodes=f'"gpu-09 mlx5_0",1,{GPU1}')],
        ("fabric-duplicated-guid", "critical", f"node GUID {GPU1} is that of 'gpu-01 mlx5_0' and of 'gpu-09 mlx5_0'"),
        [db_csv(nodes='"gpu-01 mlx5_0",1,0xb8599f0300a00077')],
    ),
    "ibdiagnet: bit errors": (
        [event("WARNINGS_SYMBOL_BER_CHECK", "BER_THRESHOLD_EXCEEDED")],
        ("fabric-bit-errors", "critical", "gpu-01 mlx5_0 port 1: BER_THRESHOLD_EXCEEDED"),
        [event("WARNINGS_SYMBOL_BER_CHECK", "BER_NO_THRESHOLD_IS_SUPPORTED")],
    ),
    "ibdiagnet: another error": (
        [event("ERRORS_PKEY", "PKEY_MISMATCH", "keys differ")],
        ("fabric-alarm", "critical", "gpu-01 mlx5_0 port 1: PKEY_MISMATCH: keys differ"),
        [event("ERRORS_PKEY", "", "")],
    ),
    "log: slow link": (
        [recorded("ibdiagnet_speed.log")],
        ("fabric-link-rate", "critical", "port 20 to 0x0002c90300165e60 port 1: Unexpected actual link speed 2.5"),
        [recorded("ibdiagnet_clean.log")],
    ),
    "log: counters that grow": (
        [recorded("ibdiagnet_counters.log")],
        ("fabric-port-errors", "warning", "r9i1n25/U1 port 1: symbol_error +2040"),
        [recorded("ibdiagnet_counters.log").replace("symbol_error_counter", "port_rcv_remote_physical_errors")
         .replace("port_xmit_discard ", "port_xmit_wait    ").replace("-E- FW", "-I- FW")
         .replace("-E- S200", "-I- S200")],
    ),
    "log: duplicated GUID": (
        [DUPLICATE.format(said="Node GUID = 0x0002c90300165e60 is duplicated at: gpu-01/U1, gpu-09/U1")],
        ("fabric-duplicated-guid", "critical", "0x0002c90300165e60"),
        [DUPLICATE.replace("-E-", "-I-").format(said="no duplicated node GUID")],
    ),
    "log: stage without details": (
        ["-E- Routing finished with errors\n"],
        ("fabric-alarm", "critical", "stage 'Routing' found something wrong, and no line of this file says what"),
        ["-I- Routing finished successfully\n"],
    ),
    "symbol BER": (
        [recorded("net_dump_ext.txt")],
        ("fabric-bit-errors", "critical", "MF0;G1-IB-CORE-SW04A:MCS8500/L03/U2 port 4: symbol BER 1e-12"),
        [recorded("net_dump_ext.txt").replace("2e-08 : 1e-12 : 7", "2e-08 : 1.5e-254 : 0")],  # sent again, none is left
    ),
    "UFM: port down": (
        [ufm_ports({"gpu-02 HCA-1/1": {"logical_state": "Down", "physical_state": "Polling", "peer": "N/A"}})],
        ("fabric-port-down", "critical", "gpu-02 HCA-1/1 port 1 is Down/Polling"),
        [ufm_ports()],  # the second port of each host is down, and the leaf's port 30
    ),
    "UFM: slow link": (
        [ufm_ports({"gpu-03 HCA-1/1": QDR, "leaf1 3": QDR})],
        ("fabric-link-rate", "critical", "gpu-03 HCA-1/1 port 1 to leaf1 3 port 3 runs at 4x QDR"),
        [ufm_ports({"gpu-03 HCA-1/1": QDR | {"enabled_speed": ["QDR"]}, "leaf1 3": QDR})],
    ),
    "UFM: high BER": (
        [ufm_ports({"leaf1 2": {"high_ber_severity": "Warning"}})],
        ("fabric-bit-errors", "warning", "leaf1 2 port 2: UFM calls its bit error rate high (Warning)"),
        [ufm_ports({"leaf1 2": {"high_ber_severity": "N/A"}})],
    ),
    "UFM: GUID of two hosts": (
        [ufm_ports({"gpu-02 HCA-1/1": {"name": "b8599f0300a00001_1"}})],
        ("fabric-duplicated-guid", "critical", "is that of 'gpu-01 HCA-1/1' and of 'gpu-02 HCA-1/1'"),
        [ufm_ports()],
    ),
    "UFM: link that went down": (
        [recorded("ufm_alarms.json")],
        ("fabric-port-errors", "warning", "Computer: r-ufm77 / mlx5_0 port 1: Link HW Error: Link Downed"),
        [recorded("ufm_alarms.json").replace('"Warning"', '"Info"').replace('"Critical"', '"Info"')],
    ),
    "UFM: power supply of a switch": (
        [recorded("ufm_alarms_older.json")],
        ("fabric-alarm", "critical", "Switch: r-ufm-sw63: Module status FAULT"),
        [recorded("ufm_alarms_older.json").replace('"Critical"', '"Info"')],
    ),
    "UFM: unhealthy port": (
        [recorded("ufm_unhealthy_ports.json")],
        ("fabric-alarm", "warning", "r-dmz-ufm135 port 1: marked unhealthy (MANUAL)"),
        [ufm_ports()],
    ),
    "iblinkinfo: narrow link of a real tool": (
        [recorded("iblinkinfo_ibsim.txt")],
        ("fabric-link-rate", "critical", "node4 mlx5_0 port 1 to leaf1 port 4 runs at 1x EDR"),
        [recorded("iblinkinfo_ibsim.txt").replace("( 1X      25", "( 4X      25")
         .replace("( 4X          10.0 ", "( 4X      25.78125 ")],
    ),
    "iblinkinfo: could be more": (
        [links(slow=1, could="Could be 4X")],
        ("fabric-link-rate", "critical", "leaf1 port 1 to h1 mlx5_0 port 1 runs at 1x EDR"),
        [links(slow=2, could=" "), links(slow=8, could="Could be 4X")],  # of the tool's words, and of most links
    ),
    "ibqueryerrors": (
        [recorded("ibqueryerrors_ibsim.txt")],
        ("fabric-port-errors", "warning", "node5 mlx5_0 port 1: link_downed 3"),
        [recorded("ibqueryerrors_ibsim.txt").replace("== 3]", "== 1]")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_named_and_its_near_miss_is_silent(name: str) -> None:
    fires, (rule, severity, says), near = CASES[name]
    told = [one for one in found(*fires) if one.rule == rule and says in one.summary]
    assert [(one.severity, one.recommendations != ()) for one in told] == [(severity, True)], found(*fires)
    for text in near:
        assert found(text) == []


def test_every_format_has_cases() -> None:
    texts = [text for fires, _, near in CASES.values() for text in (*fires, *near)]
    assert {known.title for text in texts if (known := format_of(text))} == {one.title for one in FORMATS}


def test_hosts_are_named_by_themselves() -> None:
    (slow,) = found(*CASES["link slower than both ends can"][0])
    assert slow.hosts == ("gpu-01",)
    assert {one.hosts for one in found(recorded("ufm_alarms.json"))} == {("r-ufm77",), ()}
    assert slow.evidence[0].file == "f0"


def test_a_fault_of_two_files_or_of_both_ends_is_one() -> None:
    log = recorded("ibdiagnet_speed.log").replace("0002c90300688830", LEAF[2:]).replace("0002c90300165e60", GPU1[2:])
    log = log.replace("/P20", "/P1")
    tables = db_csv({(GPU1, 1): {"LinkSpeedActv": "1"}, (LEAF, 1): {"LinkSpeedActv": "1"}})
    (one,) = found(log, tables)
    assert "gpu-01 mlx5_0 port 1" in one.summary  # the log knows GUIDs, the tables have the names


def test_a_clean_fabric_of_all_files_is_silent() -> None:
    assert found(db_csv(), ufm_ports(), recorded("ibdiagnet_clean.log")) == []


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "hello", '{"data": 7}', "[" * 5000, "START_\nEND_", '[{"severity": 1}]']
)
def test_what_is_no_such_file_is_none(text: str) -> None:
    assert format_of(text) is None


def test_every_recorded_output_has_an_origin_and_a_case() -> None:
    origins, tests = (RECORDED / "README.md").read_text(), Path(__file__).read_text()
    for path in RECORDED.iterdir():
        assert path.name == "README.md" or (path.name in origins and path.name in tests), path.name
