"""What the selftest reads before it runs anything: packages, driver and torch, in a process that may hang or crash."""

import contextlib
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import msgspec

from raybench.documents.part import part_of
from raybench.documents.reading import DocumentError, json_of
from raybench.documents.run.facts import RdmaPort
from raybench.documents.selftest import DriverReading, TorchReading
from raybench.installation import packages_of
from raybench.metadata import installed_version, rdma_ports
from raybench.services.selftest.check import Package, Readings

PROBE_SECONDS = 60.0
_KILLED_SECONDS = 5.0
_PROBE = "raybench.benchmarks.gpu_stack"
_REQUIREMENT = re.compile(r"([\w.-]+?)\s*>=\s*([\d.]+)")


def read_machine() -> Readings:
    """Packages, driver and torch; what could not be read has its reason."""
    driver, torch = probe([sys.executable, "-P", "-m", _PROBE], PROBE_SECONDS)
    ports = [port for port in msgspec.convert(rdma_ports(), list[RdmaPort]) if port.state == "ACTIVE"]
    return Readings(driver=driver, torch=torch, packages=packages(packages_of("run")), rdma_ports=len(ports))


def packages(requirements: Sequence[str]) -> tuple[Package, ...]:
    """Each ``ray>=2.55`` beside what is installed."""
    found = (_REQUIREMENT.match(text) for text in requirements)
    return tuple(Package(name=one[1], least=one[2], installed=installed_version(one[1])) for one in found if one)


def probe(command: Sequence[str], limit_seconds: float) -> tuple[DriverReading, TorchReading]:
    """What the probe prints, as far as it comes; a driver that hangs holds it up, and an import may kill it."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        try:
            process.wait(limit_seconds)
            ended = _ending(process.returncode)
        except subprocess.TimeoutExpired:
            ended = f"nothing came within {limit_seconds:.0f} s: the driver hangs, or the disk is slow"
        finally:
            process.kill()  # one that waits for the kernel is not ended, and is not waited for
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_KILLED_SECONDS)
        output.seek(0)
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip().splitlines()
        return readings_of(output.read().splitlines(), f"{ended}: {said[-1][:200]}" if said else ended)


def readings_of(lines: Sequence[bytes], ended: str) -> tuple[DriverReading, TorchReading]:
    """The readings of the probe's lines; one that is missing has how the probe ended as its reason."""
    driver, torch = DriverReading(problem=ended), TorchReading(problem=ended)
    with contextlib.suppress(DocumentError, IndexError):
        driver = part_of(DriverReading, json_of(lines[0], "the reading of the driver"), "the reading of the driver")
        torch = part_of(TorchReading, json_of(lines[1], "the reading of torch"), "the reading of torch")
    return driver, torch


def _ending(code: int) -> str:
    if code >= 0:
        return f"the process that imports torch ended with exit code {code}"
    return f"the process that imports torch was killed by {signal.Signals(-code).name}"
