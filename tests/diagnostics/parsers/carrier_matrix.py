"""Counts warnings that are read in every carrier: ``python -m tests.diagnostics.parsers.carrier_matrix``.

The warnings are those of the table of wordings by release, of the parsers' samples, and all that NCCL's sources in
RAYBENCH_NCCL_SOURCE can print. Each stands between two lines of a program, in the form of each carrier, read line by
line and through the scan of large logs. A case is missed where the line gives no event of its kind; for a warning that
no pattern knows, where none says that it is a warning. A carrier without NCCL's mark is asked for what is read without
it. The last line says how many kinds of warnings that is. Exit code 1 where a case is missed.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from diagnostics import parsers
from diagnostics.parsers.base import read_message
from tests.diagnostics.parsers.bodies import bodies, redacted_bodies
from tests.diagnostics.parsers.carriers import BARE, CARRIERS, QUOTING, missed_of
from tests.diagnostics.parsers.source_warnings import warnings_of
from tests.lab.nccl.release import find_releases, unpack

UNKNOWN = "unclassified-warning"
MAX_SHOWN = 5
Row = tuple[str, str]


def rows_of_tables() -> list[Row]:
    """Kind and text of each wording of the tables."""
    rows = [(body.kind, body.text) for body in (*bodies(), *redacted_bodies())]
    rows += [(one.kind, text) for one in (*parsers.WARNING_BODIES, *parsers.warnings.PATTERNS) for text in one.samples]
    return list(dict.fromkeys(rows))


def rows_of_sources() -> list[Row]:
    """Kind and text of each warning that NCCL's sources print; empty where none are there."""
    texts: dict[str, None] = {}
    for release in find_releases():
        with tempfile.TemporaryDirectory() as folder:
            texts |= {warning.text: None for warning in warnings_of(unpack(release, Path(folder)))}
    return [(kind, text) for text in texts for kind in kinds_of(text)]


def kinds_of(text: str) -> list[str]:
    """What a warning is read as behind NCCL's mark."""
    kinds = [kind for kind, _ in read_message(parsers.PATTERNS, text) if kind not in parsers.SIGNS]
    return list(dict.fromkeys(kinds)) or [UNKNOWN]


def is_asked(row: Row, carrier: str) -> bool:
    """Whether a row must be read in a carrier: without NCCL's mark only what is its own wherever it stands."""
    surely = carrier in ("last error", "last error on its line", "last error in a message of PyTorch")
    if surely or carrier not in BARE | QUOTING:
        return True
    patterns = parsers.BODY_PATTERNS if carrier in BARE else parsers.QUOTED_PATTERNS
    return row[0] in {kind for kind, _ in read_message(patterns, row[1])}


def main() -> int:
    """Print cases and misses of each carrier; 1 where one is missed."""
    rows = list(dict.fromkeys((*rows_of_tables(), *rows_of_sources())))
    cases = missed = 0
    for carrier, carry in CARRIERS.items():
        asked = [row for row in rows if is_asked(row, carrier)]
        lost = {row for scanned in (False, True) for row in missed_of(asked, carry, scanned=scanned)}
        cases, missed = cases + len(asked), missed + len(lost)
        print(f"{carrier:36s} {len(asked):5d} cases {len(lost):4d} missed")
        _show(sorted(lost))
    known = {text: kinds_of(text) for _, text in rows}
    bare = [text for text in known if read_message(parsers.BODY_PATTERNS, text)]
    named = [text for text, kinds in known.items() if kinds != [UNKNOWN]]
    print(f"{cases} cases in {len(CARRIERS)} carriers, {missed} missed")
    print(f"{len(known)} texts: {len(named)} of a known kind, {len(bare)} read without NCCL's mark")
    return int(missed > 0)


def _show(lost: Sequence[Row]) -> None:
    for kind, text in lost[:MAX_SHOWN]:
        print(f"    {kind}: {text[:120]}")


if __name__ == "__main__":
    sys.exit(main())
