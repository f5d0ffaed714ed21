"""What a machine did meanwhile, from files as the kernel writes them, and what is unknown."""

from pathlib import Path

import pytest

from raybench.benchmarks.machine_use import MachineSeconds, MachineUseMeter, machine_use
from raybench.stability import stolen_warnings

VIRTUAL, METAL = "flags\t\t: fpu vme sse hypervisor lahf_lm\n", "flags\t\t: fpu vme sse lahf_lm\n"
PRESSURE = "some avg10=2.90 avg60=1.33 avg300=16.33 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"


def proc(folder: Path, stat: str | None, pressure: str | None, cpuinfo: str = VIRTUAL) -> Path:
    (folder / "pressure").mkdir(parents=True, exist_ok=True)
    for name, text in (("stat", stat), ("pressure/cpu", pressure), ("cpuinfo", cpuinfo)):
        if text is not None:
            (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("before", "after", "cpuinfo", "found"),
    [
        # user nice system idle iowait irq softirq steal guest: 1 s user and 0.5 s softirq more, 0.25 s stolen
        ("cpu 100 0 50 900 5 0 10 40 0 0", "cpu 200 0 50 950 5 0 60 65 0 0", VIRTUAL, (1.5, 0.25, 2.0)),
        ("cpu 100 0 50 900 5 0 10 0 0 0", "cpu 200 0 50 950 5 0 60 0 0 0", METAL, (1.5, 0.0, 2.0)),
        ("cpu 100 0 50 900 5 0 10 0 0 0", "cpu 200 0 50 950 5 0 60 0 0 0", VIRTUAL, (1.5, None, 2.0)),  # it never says
        ("cpu 100 0 50 900 5 0 10", "cpu 200 0 50 950 5 0 60", METAL, (None, None, 2.0)),  # a kernel without the column
        ("cpu 0 0 0 0 0 0 0 0", "cpu 0 0 0 0 0 0 0 0", METAL, (None, None, 2.0)),  # a sandbox that counts nothing
        ("cpu 200 0 0 0 0 0 0 9", "cpu 100 0 0 0 0 0 0 10", VIRTUAL, (None, 0.01, 2.0)),  # a counter that went back
        ("nonsense", "cpu x", METAL, (None, None, 2.0)),
    ],
)
def test_seconds_between_two_readings(
    tmp_path: Path, before: str, after: str, cpuinfo: str, found: tuple[float | None, ...]
) -> None:
    meter = MachineUseMeter(proc(tmp_path, before + "\n", PRESSURE.format(1_000_000), cpuinfo))
    proc(tmp_path, after + "\n", PRESSURE.format(3_000_000), cpuinfo)
    now = meter.until_now()
    assert (now.busy, now.stolen, now.waiting) == tuple(
        None if value is None else pytest.approx(value) for value in found
    )
    assert now.seconds > 0


def test_a_machine_without_these_files_is_unknown(tmp_path: Path) -> None:
    now = MachineUseMeter(tmp_path).until_now()
    assert (now.busy, now.stolen, now.waiting) == (None, None, None)
    kept = machine_use(0, 0, now)
    assert (kept.stolen_share, kept.waiting_share) == (None, None)
    assert stolen_warnings([kept]) == ()


@pytest.mark.parametrize(("stolen", "said"), [(0.06, True), (0.02, False), (None, False)])
def test_a_result_says_what_its_machine_lost(stolen: float | None, said: bool) -> None:
    machine = MachineSeconds(seconds=1.0, processors=2, busy=0.94, stolen=stolen, waiting=0.1)
    found = stolen_warnings([machine_use(1, 3, machine)])
    expected = "the machine of rank 3 lost 6.0% of its processors to other virtual machines in launch 2"
    assert [text.partition(";")[0] for text in found] == ([expected] if said else [])
