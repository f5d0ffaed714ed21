"""Every warning that is known, in every form in which logs carry it: the body is found whatever stands around it."""

import json
import re
from collections.abc import Callable, Sequence

import pytest

from diagnostics import parsers
from diagnostics.facts import JobFacts
from diagnostics.inputs.reader import Batch
from diagnostics.reading import Reading
from diagnostics.scanning.gate import Gate
from diagnostics.scanning.scanner import Scanner
from tests.diagnostics.parsers.bodies import bodies, redacted_bodies

PREFIX = "n1:4101:4141 [3] "
RCCL = "/long_pathname_so_that_rpms_can_package_the_debug_info/src/extlibs/rccl/build/hipify"


def warned(body: str) -> str:
    return f"{PREFIX}misc/socket.cc:50 NCCL WARN {body}"


def cut(text: str, width: int, indentation: str = "") -> list[str]:
    """A line wrapped hard, in the middle of words too."""
    rest = range(width, len(text), width - len(indentation))
    return [text[:width], *(indentation + text[place : place + width - len(indentation)] for place in rest)]


def partial(body: str) -> list[str]:
    """As containerd writes a line that is longer than its buffer."""
    text, middle = warned(body), len(warned(body)) - len(body) // 2
    return [
        f"2026-01-02T03:04:05.678901234Z stderr P {text[:middle]}",
        f"2026-01-02T03:04:05.678901235Z stderr F {text[middle:]}",
    ]


CARRIERS: dict[str, Callable[[str], list[str]]] = {
    "plain": lambda body: [warned(body)],
    "time stamp of 2.26": lambda body: ["[2026-01-02 03:04:05] " + warned(body)],
    "function of 2.30": lambda body: [f"{PREFIX}misc/socket.cc:50 (ncclSocket) NCCL WARN {body}"],
    "mark of 2.2": lambda body: [f"{PREFIX}misc/socket.cu:50 WARN {body}"],
    "no host": lambda body: [f"NCCL WARN {body}"],
    "device only": lambda body: [f"[3] NCCL WARN {body}"],
    "redacted process": lambda body: [f"<host>:<pid>:<tid> [0] misc/socket.cc:50 NCCL WARN {body}"],
    "no mark": lambda body: [body],
    "quoted": lambda body: [f"> {body}"],
    "last error": lambda body: ["ncclSystemError: System call failed.", "Last error:", body],
    "last error on its line": lambda body: [f"Last error: {body}"],
    "last error of a program": lambda body: [f"rank 3: last error: {body}"],
    "docker": lambda body: [json.dumps({"log": warned(body) + "\n", "stream": "stderr", "time": "2026-01-02"})],
    "container runtime": lambda body: ["2026-01-02T03:04:05.678901234Z stderr F " + warned(body)],
    "container runtime in pieces": partial,
    "log collector": lambda body: [json.dumps({"ts": 1, "level": "error", "msg": warned(body)})],
    "syslog": lambda body: ["Jan  2 03:04:05 n1 train[123]: " + warned(body)],
    "srun": lambda body: ["8: " + warned(body)],
    "mpirun": lambda body: ["[1,8]<stderr>:" + warned(body)],
    "colours": lambda body: ["\x1b[36m(pid=1)\x1b[0m " + warned(body)],
    "ray": lambda body: [f"(RayTrainWorker pid=1, ip=10.0.0.1) {warned(body)} [repeated 7x across cluster] (Ray)"],
    "syslog of RFC 5424": lambda body: [f"<14>1 2026-01-02T03:04:05.678Z n1 train 123 - - {warned(body)}"],
    "journal as JSON": lambda body: [json.dumps({"PRIORITY": "3", "_HOSTNAME": "n1", "MESSAGE": warned(body)})],
    "log collector of a cluster": lambda body: [json.dumps({"log": warned(body), "kubernetes": {"pod_name": "a-0"}})],
    "kubectl with names and times": lambda body: [f"[pod/a-0/trainer] 2026-01-02T03:04:05.678901234Z {warned(body)}"],
    "cloud's console": lambda body: [f"| 2026-01-02T03:04:05.678-07:00 | {warned(body)}"],
    "numbered lines": lambda body: [f"80746 {warned(body)}"],
    "deepspeed": lambda body: [f"worker-1: {warned(body)}"],
    "torchrun": lambda body: [f"[default3]:{warned(body)}"],
    "mpirun with time": lambda body: [f"2026-01-02T03:04:05.884Z: [1,12]<stdout>:{warned(body)}"],
    "python logging": lambda body: [f"2026-01-02 03:04:05,678 - ERROR - worker - {warned(body)}"],
    "bold": lambda body: [f"**{warned(body)}**"],
    "emphasised": lambda body: [f"_{warned(body)}_"],
    "code in a list": lambda body: [f"- `{warned(body)}`"],
    "path of RCCL": lambda body: [f"{PREFIX}{RCCL}/src/misc/socket.cc:50 NCCL WARN {body}"],
    "bazel": lambda body: [f"{PREFIX}external/nccl_archive/src/misc/socket.cc:50 NCCL WARN {body}"],
    "ray in colours": lambda body: [
        f"\x1b[36m(W pid=1, ip=10.0.0.1)\x1b[0m {warned(body)}\x1b[32m [repeated 7x across cluster]"
    ],
    "wrapped at 100": lambda body: cut(warned(body), 100),
    "wrapped at 110 and indented": lambda body: cut(warned(body), 110, "    "),
}


def facts_of(lines: Sequence[str]) -> JobFacts:
    reading = Reading()
    reading.feed(Batch(file="a.log", block="\n".join(["begin", *lines, "end"]).encode(), first=True))
    reading.flush()
    return reading.facts()


def missed_of(
    rows: Sequence[tuple[str, str]], carry: Callable[[str], list[str]], *, scanned: bool = False
) -> list[tuple[str, str]]:
    """Rows whose kind is not read from their own lines, all rows in one file, a line of the program between two."""
    told: dict[int, set[str]] = {}
    gate = Gate(scan_from_bytes=0 if scanned else 2**40)
    scanner = Scanner(lambda event: told.setdefault(event.origin.line, set()).add(event.kind), gate)
    lines, places = ["begin"], []
    for _, body in rows:
        carried = carry(body)
        places.append(range(len(lines) + 1, len(lines) + 1 + len(carried)))
        lines += [*carried, "step"]
    scanner.feed(Batch(file="a.log", block="\n".join(lines).encode(), first=True))
    scanner.finish()
    return [
        row for row, place in zip(rows, places, strict=True) if not any(row[0] in told.get(one, ()) for one in place)
    ]


def informed(carry: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """The carrier of a line at level INFO."""
    return lambda body: [
        re.sub(r"(?:\S*misc/socket\.c[cu]:50 )?(?:\(ncclSocket\) )?((?:NCCL )?)WARN ", r"\1INFO ", line)
        for line in carry(body)
    ]


@pytest.mark.parametrize("carrier", CARRIERS)
def test_every_body_is_read_in_every_carrier(carrier: str) -> None:
    bodies = [(pattern.kind, sample) for pattern in parsers.WARNING_BODIES for sample in pattern.samples]
    missed = [(kind, body) for kind, body in bodies if kind not in facts_of(CARRIERS[carrier](body)).events]
    assert not missed


@pytest.mark.parametrize("carrier", ["no mark", "quoted", "srun", "no host"])
def test_what_is_read_line_by_line_passes_the_scan_too(carrier: str) -> None:
    bare = [*parsers.BODY_PATTERNS, *(one for one in parsers.warnings.PATTERNS if one.samples[0].startswith("NET/"))]
    rows = [(one.kind, text) for one in bare for text in one.samples]
    by_line = missed_of(rows, CARRIERS[carrier])
    assert not [row for row in missed_of(rows, CARRIERS[carrier], scanned=True) if row not in by_line]


FAILURES_AT_INFO = (
    "trace", "failure-frame", "async-error", "libibverbs-missing", "ras-peer-dead", "ras-port", "connect-retry",
    "ib-no-device", "ib-open-failed", "plugin-absent", "plugin-load-error", "plugin-unusable", "variable-invalid",
    "async-event", "link-layer-mismatch", "gdr-nic", "gdr-pair", "network", "network-assigned", "abort",
)  # fmt: skip
_ALSO_AT_INFO = [one for one in parsers.PATTERNS if one not in parsers.warnings.PATTERNS]
AT_INFO = [(one.kind, text) for one in _ALSO_AT_INFO if one.kind in FAILURES_AT_INFO for text in one.samples]
_WRAPPED = {"wrapped at 100", "wrapped at 110 and indented"}  # only warnings are put together again


@pytest.mark.parametrize("carrier", sorted(CARRIERS.keys() - _WRAPPED - {"last error of a program"}))
def test_what_tells_of_a_failure_at_info_is_read_in_every_carrier(carrier: str) -> None:
    bare = carrier in ("no mark", "quoted", "last error", "last error on its line")
    read_bare = {one.kind for one in parsers.BODY_PATTERNS} | {"ib-no-device", "ib-open-failed"}
    rows = [row for row in AT_INFO if not bare or row[0] in read_bare]
    rows = [row for row in rows if carrier != "mark of 2.2" or "NCCL" not in row[1]]
    assert len(rows) > 20
    assert not missed_of(rows, CARRIERS[carrier] if bare else informed(CARRIERS[carrier]))


@pytest.mark.parametrize("library", ["/src/", "/opt/rocm/src/rccl/build/release/hipify/src/", "external/rccl/src/"])
def test_bodies_are_read_behind_the_paths_of_other_builds(library: str) -> None:
    rows = [(body.kind, body.text) for body in bodies()]
    assert not missed_of(rows, lambda body: [f"{PREFIX}{library}misc/socket.cc:50 NCCL WARN {body}"])
    assert not missed_of(rows, lambda body: [f"{PREFIX}{library}transport/net_ib.cu:50 WARN {body}"])
    assert not missed_of(
        rows, lambda body: [f"[rank3]:[2026-01-02 03:04:05] {PREFIX}{library}x.cc:5 (a) NCCL WARN {body}"]
    )


@pytest.mark.parametrize("carrier", CARRIERS)
def test_every_wording_of_every_release_is_read_in_every_carrier(carrier: str) -> None:
    every = (*bodies(), *redacted_bodies())
    missed = [body for body in every if body.kind not in facts_of(CARRIERS[carrier](body.text)).events]
    assert not missed


_WITHOUT_MARK = {"no mark", "quoted", "last error of a program", "mark of 2.2"}


@pytest.mark.parametrize("carrier", sorted(CARRIERS.keys() - _WITHOUT_MARK))
def test_every_row_of_the_table_of_warnings_is_read_in_every_carrier_that_keeps_a_mark(carrier: str) -> None:
    rows = [(pattern.kind, pattern.samples[0]) for pattern in parsers.warnings.PATTERNS]
    missed = [(kind, body) for kind, body in rows if kind not in facts_of(CARRIERS[carrier](body)).events]
    assert not missed


def test_a_line_keeps_its_number_where_pieces_before_it_are_joined() -> None:
    lines = [*partial("Cuda failure 'out of memory'"), warned("Cuda failure 'out of memory'")]
    events = facts_of(lines).of("cuda-failure")
    assert [event.origin.line for event in events] == [2, 4]


def test_lines_of_other_programs_are_no_bodies() -> None:
    lines = (
        "curl: (7) Failed to connect to 10.0.0.1 port 80: Connection refused",
        "ssh: connect to host n2 port 22: Connection refused",
        "2026-01-02 03:04:05 [trainer] INFO epoch 1",
        "2026-01-02 03:04:05 WARN retry of the upload",
        "version mismatch in the configuration: 2 is not 3",
        "Call to print failed tests: 0",
        "[GIN] 2026/01/02 - 03:04:05 | 200 | 1.2ms | 10.0.0.1 | GET /healthz",
        "GIN is disabled.",
        "GIN error: template not found",
        "symmetric memory is enabled for the process group",
        "RMA is not supported by this provider",
        "Could not find GPU 3 in the inventory",
        "Could not find id 7 in the database",
        "Too many aggregated operations in the pipeline",
        "Trying to launch too many pods",
        "the plane ID of the flight is missing",
        "Error : name of the tensor too long (max 64)",
        "merge NICs of the report by hand",
        "Net : epoch 3 of 7, string of layers is done",
        "malloc of 12 bytes failed",
        "Thread creation failed: trying again",
        "Failure in host setup : apt is locked",
        "Bootstrap thread started",
        "NVLink error counters are 0",
    )
    assert not facts_of(lines).events
