"""Which lines of a block can matter at all: everything else is never looked at again.

With the optional hyperscan package one pass of a compiled set of literals finds them (about 1.5 GB/s on one core);
without it, a loop over the lines tests a few literals each (about 35 MB/s). Both pass at least every line that a
pattern reads.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from diagnostics.reader import MAX_LINE_BYTES

DETAIL_HITS = 30_000  # lines of the frequent kinds that are read one by one; later ones only where they are unusual

Candidate = tuple[int, bytes]  # a position for Gate.line_of, and the line

# plain text, escaped for the scanner; what judges the job however big the log is
_ALWAYS = (
    "NCCL WARN",
    "NCCL ATTN",
    "CCL version",
    "ROCr version",
    "ROCm version",
    "rocm_smi_lib",
    "Abort COMPLETE",
    " set by environment to",
    "NCCL_IB_HCA set to",
    "NCCL_SOCKET_IFNAME set to",
    "reset to NCCL_",
    "lugin name set by env",
    "Net name set to",
    "Invalid value",
    "Using internal Network",
    "Assigned NET plugin",
    "NET/IB : Using",
    "NET/IB : No",
    "NET/IB : Unable",
    "NET/IB : Made",
    "NET/IB : Got",
    "NET/IB: Got",
    "NET/IB: [",
    "libibverbs",
    "NET/Socket :",
    "Bootstrap : Using",
    "Bootstrap: Using",
    "Net devices",
    "Net device counts",
    "External network plugin",
    "Failed to initialize",
    "NET/OFI",
    "NET/FastSocket",
    "NET/GPUDirectTCPX",
    "NET/FasTrak",
    "NET/gIB",
    "NET/IB/GDR",
    "Pattern 4",
    "Could not find a path",
    "opology file",
    "XML Topology",
    "XML Mismatch",
    "Topology detection failed",
    "P2P is disabled",
    "Could not enable P2P",
    "P2P not supported",
    "Failed to bind NVLink",
    "MNNVL (",
    "MNNVL is not",
    "RAS failed",
    "as DEAD",
    "version mismatch",
    "Traceback (most",
    "Error: ",
    "Exception: ",
    "collective operation timeout",
    "ast enqueued",
    "terminated with exception",
    "got stuck for",
    "caused the desync",
    "finished collective #",
    "communicator was aborted",
    "c10d key-value store",
    "No space left on device",
    "SIGKILL",
    "SIGSEGV",
    "SIGABRT",
    "SIGBUS",
    "signal 9",
    "signal 11",
    "NCCL version: ",
    "peedup",
    "radient",
    "Duplicate",
    "Last error:",
    "Ranks are using",
    "ranks detected using",
    "nranks 1 ",
)
_EXPRESSIONS = (
    rb"(?:NCCL|RCCL)_[A-Z0-9_]+=",
    rb"FI_[A-Z_]+=",
    rb"net_(?:ib|socket)[a-z0-9_/]*\.cc?:[0-9]+ (?:\([A-Za-z]+\) )?->",
    rb"UCX {1,3}(?:ERROR|error)",
)
# frequent kinds: all of them while the detail lasts, later only the forms that change a judgement
_DETAIL = (
    rb" via ",
    rb"Using network ",
    rb"GPU Direct RDMA",
    rb"NET/Plugin",
    rb" coll channels",
    rb"Destroy COMPLETE",
    rb" qpn ",
    rb"SHARP",
    rb"opCount ",
    rb"TUNER/Plugin",
)
_INIT = (
    rb"Init START",
    rb"Init COMPLETE",
    rb" nNodes ",
)
_ODD = (
    rb" via NET/[^/\n]+/[0-9]+(?:\([0-9]+\))?(?:/Shared|[ \r\n])",
    rb" via NET/(?:Socket|FastSocket)",
    rb" via SHM",
    rb" via direct shared",
    rb"Using network (?:[^I]|I[^B])",
    rb"GPU Direct RDMA (?:Disabled|\([A-Za-z-]+\) disabled)",
    rb"cannot open shared object",
    rb"undefined symbol",
    rb"version `",
    rb"invalid ELF",
)
_FOREIGN = (
    b"Using network", b"Traceback", b"rror: ", b"xception: ", b"NET/", b" via ", b"libibverbs", b"SIG", b"signal ",
    b"No space", b"finished collective", b"peedup", b"radient", b"UCX", b"GPU Direct RDMA", b"Topology detection",
    b"Last error:",
)  # fmt: skip
_NOISE = frozenset(
    head.encode()
    for head in (
        "Trees ",
        "thread",
        "P2P Ch",
        "NVLS H",
        "NVLS T",
        "NVLS c",
        "New pr",
        "Connec",
        "Settin",
        "P2P pl",
        "AllRed",
    )
)

_HEADS = _NOISE | {b"Channe"}


@dataclass(slots=True)
class Gate:
    """Finds the candidates of blocks, one after another. ``lines`` and ``nccl_lines`` count the lines of all blocks.

    ``known`` holds messages (text behind NCCL's mark -> repetitions) that were read; once the detail is used up
    they are only counted, whoever prints them.
    """

    lines: int = 0
    nccl_lines: int = 0
    detail_left: int = DETAIL_HITS
    known: dict[bytes, int] = field(default_factory=dict)
    skips_init: bool = False  # from here on, rank by rank lines of more communicators tell nothing
    scan_from_bytes: int = 2**20  # below, compiling the set costs more than it saves
    _seen_bytes: int = 0
    _block: bytes | None = None
    _number: int = 0
    _counted: int = 0

    def candidates(self, block: bytes) -> Iterator[Candidate]:
        """Lines of a block (complete lines, no newline at its end) that can matter, in order."""
        self._seen_bytes += len(block)
        if self._seen_bytes < self.scan_from_bytes or (database := compile_database(self._expressions())) is None:
            return self._by_line(block)
        return self._by_scan(block, database)

    def _expressions(self) -> tuple[bytes, ...]:
        """What is looked for beside _ALWAYS, the less the longer the log is."""
        frequent = _DETAIL if self.detail_left > 0 else _ODD
        return frequent if self.skips_init else frequent + _INIT

    def line_of(self, position: int) -> int:
        """The number of the line, from 0 in its block, of the candidate that was given last."""
        if self._block is None:
            return position
        self._number += self._block.count(b"\n", self._counted, position)
        self._counted = position
        return self._number

    def _by_scan(self, block: bytes, database: Any) -> Iterator[Candidate]:
        ends: list[int] = []
        append = ends.append

        def note(_id: int, _start: int, end: int, _flags: int, _context: object) -> None:
            append(end)

        database.scan(block, match_event_handler=note)
        ends.sort()
        self.nccl_lines += block.count(b"] NCCL INFO ")
        find, rfind, known, skips = block.find, block.rfind, self.known, self.detail_left <= 0
        self._block, self._number, self._counted = block, 0, 0
        start = line_end = 0
        for end in ends:
            if end <= line_end + 1:  # a match may take in the newline of its line
                continue
            start = rfind(b"\n", start, end - 1) + 1 or start
            line_end = find(b"\n", end - 1)
            if line_end < 0:
                line_end = len(block)
            if skips and (mark := find(b"NCCL ", start, line_end)) >= 0:
                text = block[mark + 5 : line_end]
                if text in known:
                    known[text] += 1
                    continue
            raw = block[start : min(line_end, start + MAX_LINE_BYTES)]
            self.nccl_lines += b"] NCCL INFO " not in raw and b"CCL" in raw
            yield start, raw
            if _is_continued(raw) and line_end < len(block):
                stop = _line_end(block, line_end + 1)
                following = block[line_end + 1 : min(stop, line_end + 1 + MAX_LINE_BYTES)]
                matched = bisect_left(ends, stop + 2) > bisect_left(ends, line_end + 2)  # then it comes by itself
                if not matched and b"NCCL " not in following:  # perhaps the rest of a line that was wrapped hard
                    yield line_end + 1, following
        self.detail_left -= len(ends)
        self.lines += self._number + block.count(b"\n", self._counted) + 1
        self._block = None

    def _by_line(self, block: bytes) -> Iterator[Candidate]:
        self._block = None
        number = -1
        after_warning = False
        present = tuple(literal for literal in _FOREIGN if literal in block)
        for number, raw in enumerate(block.split(b"\n")):
            if b"CCL" in raw:
                self.nccl_lines += 1
                if self._is_told(raw) if self.detail_left <= 0 else _is_noise(raw):
                    continue
                after_warning = b"NCCL WARN" in raw
                self.detail_left -= 1
                yield number, raw[:MAX_LINE_BYTES]
            elif after_warning or is_foreign(raw, present):
                after_warning = b"Last error:" in raw
                yield number, raw[:MAX_LINE_BYTES]
        self.lines += number + 1

    def _is_told(self, raw: bytes) -> bool:
        """Whether a marked line tells nothing once the detail is used up: what _ODD leaves out, and repetitions."""
        mark = raw.find(b"NCCL INFO ")
        if mark < 0:
            return False
        if raw[mark + 10 : mark + 16] in _HEADS or (self.skips_init and b"- Init " in raw):
            if raw.find(b"NCCL ", mark + 10) >= 0:
                return False
            return b" via " not in raw or b" via P2P" in raw or b"/GDRDMA" in raw
        text = raw[mark + 5 :]
        if b": opCount " in raw:
            return True
        if text not in self.known:
            return False
        self.known[text] += 1
        return True


def _line_end(block: bytes, start: int) -> int:
    end = block.find(b"\n", start)
    return len(block) if end < 0 else end


def is_foreign(raw: bytes, literals: tuple[bytes, ...] = _FOREIGN) -> bool:
    """Whether a line without NCCL's mark can matter."""
    for literal in literals:  # noqa: SIM110 - a generator costs three times as much, on every line of every log
        if literal in raw:
            return True
    return False


def _is_continued(raw: bytes) -> bool:
    """Whether the next line may belong to this one."""
    return b"NCCL WARN" in raw or b"Last error:" in raw or b"operation timeout:" in raw[-60:]


def _is_noise(raw: bytes) -> bool:
    """Whether a marked line is one that no pattern reads: ring lists, trees, affinities."""
    start = raw.find(b"NCCL INFO ") + 10
    if start < 10:
        return False
    head = raw[start : start + 6]
    if head == b"Channe":
        return raw.find(b" via ", start) < 0 and raw.find(b"NCCL ", start) < 0
    return head in _NOISE and raw.find(b"NCCL ", start) < 0 and raw.find(b"opCount ", start) < 0


@cache
def compile_database(frequent: tuple[bytes, ...]) -> Any:
    """The compiled set of literals; None where hyperscan is not installed."""
    try:
        import hyperscan  # noqa: PLC0415 - optional, and only big logs pay for it
    except ImportError:
        return None
    expressions = [*(_escape(text) for text in _ALWAYS), *_EXPRESSIONS, *frequent]
    database = hyperscan.Database()
    flags = [hyperscan.HS_FLAG_DOTALL] * len(expressions)
    database.compile(expressions=expressions, ids=list(range(len(expressions))), elements=len(expressions), flags=flags)
    return database


def _escape(text: str) -> bytes:
    return "".join(f"\\x{ord(character):02x}" if not character.isalnum() else character for character in text).encode()
