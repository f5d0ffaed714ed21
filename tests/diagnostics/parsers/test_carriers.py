"""Every warning that is known, in every form in which logs carry it: the body is found whatever stands around it."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from diagnostics import parsers
from diagnostics.facts import JobFacts
from diagnostics.inputs.reader import Batch
from diagnostics.reading import Reading
from diagnostics.rules.base import conclude
from tests.diagnostics.parsers.bodies import bodies, redacted_bodies
from tests.diagnostics.parsers.carriers import BARE, CARRIERS, PREFIX, QUOTING, TEARING, missed_of, partial, warned
from tests.diagnostics.parsers.source_warnings import warnings_of


def facts_of(lines: Sequence[str]) -> JobFacts:
    reading = Reading()
    reading.feed(Batch(file="a.log", block="\n".join(["begin", *lines, "end"]).encode(), first=True))
    reading.flush()
    return reading.facts()


def informed(carry: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """The carrier of a line at level INFO."""
    return lambda body: [
        re.sub(r"(?:\S*misc/socket\.c[cu]:50 )?(?:\(ncclSocket\) )?((?:NCCL )?)WARN ", r"\1INFO ", line)
        for line in carry(body)
    ]


@pytest.mark.parametrize("carrier", CARRIERS)
def test_every_body_is_read_in_every_carrier(carrier: str) -> None:
    rows = [(pattern.kind, sample) for pattern in parsers.WARNING_BODIES for sample in pattern.samples]
    rows += [(body.kind, body.text) for body in (*bodies(), *redacted_bodies())]
    assert not missed_of(rows, CARRIERS[carrier])


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


@pytest.mark.parametrize(
    "carrier", [*sorted(CARRIERS.keys() - TEARING - QUOTING), "last error", "last error on its line"]
)
def test_what_tells_of_a_failure_at_info_is_read_in_every_carrier(carrier: str) -> None:
    bare = carrier in BARE | QUOTING
    read_bare = {one.kind for one in parsers.BODY_PATTERNS} | {"ib-no-device", "ib-open-failed"}
    rows = [row for row in AT_INFO if not bare or row[0] in read_bare]
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


@pytest.mark.parametrize("carrier", sorted(CARRIERS.keys() - BARE))
def test_every_row_of_the_table_of_warnings_is_read_in_every_carrier_that_keeps_a_mark(carrier: str) -> None:
    assert not missed_of([(one.kind, one.samples[0]) for one in parsers.warnings.PATTERNS], CARRIERS[carrier])


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
        "last error: connection pool is empty",
        "the answer is not a valid pointer",
        "Invalid config for the scheduler: 3 workers",
        "optimizer argument not initialized, using the default",
        "the window has already been destroyed",
        "CUDA driver 550.54 is loaded",
        "Too many connections: the pool waits",
        "the room ran out of seats",
        "all lines must have a prefix",
        "a call without a matching answer is counted",
        "Thread creation failed: 3 of 9, next try in 5 s",
        "communicator of the group was renewed",
        "Last NCCL warning(error) log entry (may be unrelated) ''.",
        'level=error msg="no route to host" pod=a',
        "<b>Call</b> to sort failed &amp; ended",
    )
    assert not facts_of(lines).events


def test_the_sources_of_nccl_tell_what_they_print(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.cc").write_text(
        'WARN("Call to %s failed : %s (%ld of %" PRIu64 ")", f("a, b"), strerror(errno), 1L, n); // WARN("no")\n'
        '#define CHECK(x) WARN("no")\nWARN(text); INFO(NCCL_NET, "no"); WARN("see https://x.y" /* it, is */ "/z");\n'
    )
    assert [(one.file, one.text) for one in warnings_of(tmp_path)] == [
        ("a.cc", "Call to mlx5_0 failed : Cannot allocate memory (7 of 7)"),
        ("a.cc", "see https://x.y/z"),
    ]


@pytest.mark.parametrize(
    "body", ["Cuda failure 'out of memory'", "AllReduce : communicator was revoked", "Call to ibv_reg_mr failed"]
)
def test_what_ray_left_out_is_counted(body: str) -> None:
    for mark, count in (("", 2), (" [repeated 7x across cluster]", 9), (" [repeated 7x]", 2)):
        facts = facts_of([warned(body), warned(body) + mark])
        kind = next(kind for kind in facts.events if kind not in parsers.SIGNS)
        assert facts.count(kind) == count
        assert conclude(facts, facts.of(kind), severity="info", summary="", explanation="").occurrences == count
