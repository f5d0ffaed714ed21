"""The table of a preflight while hosts answer: whole words at any width."""

import io
import re

import pytest

from raybench.documents.preflight import CheckResult
from raybench.reports.preflight.table import PreflightTable
from raybench.verdicts import CheckVerdict

NAMES = ("host-reachable", "host-clock", "pci-width", "gpu-count", "rdma-ports", "roce-gid", "software", "drift-limits")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def checks(count: int, verdict: CheckVerdict = "pass") -> list[CheckResult]:
    return [CheckResult(check=f"{NAMES[index % 8]}-{index // 8}", verdict=verdict) for index in range(count)]


def lines_of(stream: io.StringIO) -> list[str]:
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    return [line for line in re.split(r"[\r\n]+", text) if line.strip()]


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("count", [0, 3, 60])
def test_no_line_is_a_letter(width: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(width))
    stream = Terminal()
    with PreflightTable(stream, [f"node-{number}" for number in range(10)]) as table:
        if count:
            for number in range(4):
                table.show(f"node-{number}", checks(count, "fail" if number == 2 else "pass"))
    shown = lines_of(stream)
    assert any("of 10 hosts answered" in line for line in shown)
    assert [line for line in shown if len(line.strip()) < 4] == []
    assert all(len(line.rstrip()) <= width for line in shown)
    assert count == 0 or any(line.startswith("  node-2 ") and "FAIL" in line for line in shown)


def test_hosts_that_the_screen_has_no_room_for_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "16")
    stream = Terminal()
    with PreflightTable(stream, [f"node-{number}" for number in range(30)]) as table:
        for number in range(30):
            table.show(f"node-{number}", checks(3))
    assert any("20 more are below the screen" in line for line in lines_of(stream))
