"""Each RDMA device with itself, by ``ib_write_bw`` of perftest: through its PCIe slot and back, without any cable.

``nic-loopback`` is Gb/s (10^9 bits), a sample each run. Only ports that are up are tested: a port that is down is
``rdma-port``'s. A device that is software (Soft-RoCE) proves that verbs work; its speed is that of the processors.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from typing import NamedTuple

from raybench.benchmarks.node_tests.plan import Figure, Plan, say

TEST = "nic-loopback"
_PROGRAM = "ib_write_bw"
_ROOT = "/sys/class/infiniband"
_ROUNDS = 3
_MESSAGES = 5000
_SOFTWARE_MESSAGES = 200  # a processor that is emulated or busy makes some 0.03 Gb/s
_BYTES = 65536
_RUN_SECONDS = 15.0  # of one run, which takes under one where a device does more than 2 Gb/s
_READY_SECONDS = 5.0
_MOST_BYTES = 1 << 16
_SOFTWARE = frozenset({"rdma_rxe", "siw"})
_NEEDS_OTHER = {"efa": "perftest's write test needs two EFA devices"}


class _Port(NamedTuple):
    """A port that is up. ``gid`` is the index to ask for; None where InfiniBand needs none."""

    device: str
    number: int
    driver: str
    model: str
    rate: str
    gid: int | None


def run(plan: Plan) -> None:
    """Every port in turn, within the plan's time."""
    ports = _ports()
    if not ports:
        why = "no RDMA device here" if not glob.glob(f"{_ROOT}/*") else "no RDMA port is up; rdma-port says why"
        say(Figure(TEST, "nic", status="skipped" if why.endswith("here") else "missing", reason=why))
        return
    path = os.environ.get("PATH", "") + ":/usr/bin:/usr/local/bin:/opt/mellanox/perftest/bin:/opt/perftest/bin"
    program = shutil.which(_PROGRAM, path=path)
    if program is None:
        say(Figure(TEST, "nic", status="missing", reason=f"{_PROGRAM} is not installed (package perftest)"))
        return
    ends = time.monotonic() + plan.seconds
    for port in ports:
        say(_tested(program, port, ends))


def _tested(program: str, port: _Port, ends: float) -> Figure:
    """The figure of one port: that of its runs, or of the first that failed."""
    name = f"{port.device}/{port.number}"
    setting = f"{_PROGRAM}, {_BYTES // 1024} KiB, {port.rate}"
    if port.driver in _NEEDS_OTHER:
        return Figure(TEST, name, status="skipped", reason=_NEEDS_OTHER[port.driver], model=port.model)
    samples: list[float] = []
    for _ in range(_ROUNDS):
        left = ends - time.monotonic()
        if left <= 0:
            return Figure(TEST, name, status="missing", reason="no time was left for it", model=port.model)
        figure, problem = _once(program, port, min(left, _RUN_SECONDS))
        if problem:
            short = left < _RUN_SECONDS or port.driver in _SOFTWARE  # software waits for processors, which may be busy
            late = short and problem.startswith("it did not end")
            return Figure(TEST, name, "", "missing" if late else "failed", problem, port.model, setting)
        samples.append(figure)
    if port.driver in _SOFTWARE:
        told = f"{max(samples):.2f} Gb/s of {port.driver}, which is software: not compared"
        return Figure(TEST, name, model=port.model, setting=setting, checked=len(samples), detail=told)
    return Figure(TEST, name, model=port.model, setting=setting, unit="Gb/s", samples=tuple(samples))


def _once(program: str, port: _Port, seconds: float) -> tuple[float, str]:
    """Gb/s of one run of server and client, or why there is none. Both have ended afterwards."""
    number = _free_port()
    words = [program, "-d", port.device, "-i", str(port.number), "-p", str(number), "-F"]
    words += ["-n", str(_SOFTWARE_MESSAGES if port.driver in _SOFTWARE else _MESSAGES)]
    words += ["-s", str(_BYTES), "-q", "2", "--report_gbits", *([] if port.gid is None else ["-x", str(port.gid)])]
    with tempfile.TemporaryFile() as serving, tempfile.TemporaryFile() as calling:
        server = _start(words, serving)
        client = None
        try:
            if not _is_ready(server, number):
                return 0.0, f"its server did not start: {_last_words(serving)}"
            client = _start([*words, "127.0.0.1"], calling)
            status = client.wait(seconds)
            if status:
                return 0.0, f"{_PROGRAM} ended with {status}: {_last_words(calling)}"
            return _average(_text(calling))
        except subprocess.TimeoutExpired:
            return 0.0, f"it did not end within {seconds:.0f} s: {_last_words(calling)}"
        finally:
            for process in filter(None, (client, server)):
                with contextlib.suppress(OSError):
                    process.kill()
                process.wait()


def _start(words: list[str], output: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)  # type: ignore[call-overload,no-any-return]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_ready(server: subprocess.Popen[bytes], port: int) -> bool:
    """Whether it listens: asked of the kernel, since a connection would be taken for the client's."""
    wanted = re.compile(rf"^\s*\d+: \w+:{port:04X} \w+:0000 0A ", re.MULTILINE)
    ends = time.monotonic() + _READY_SECONDS
    while time.monotonic() < ends and server.poll() is None:
        for name in ("/proc/net/tcp", "/proc/net/tcp6"):
            with contextlib.suppress(OSError), open(name, encoding="ascii", errors="replace") as table:
                if wanted.search(table.read()):
                    return True
        time.sleep(0.02)
    return False


def _text(output: object) -> str:
    output.seek(0)  # type: ignore[attr-defined]
    return bytes(output.read(_MOST_BYTES)).decode("utf-8", "replace")  # type: ignore[attr-defined]


def _last_words(output: object) -> str:
    lines = [line.strip() for line in _text(output).splitlines() if line.strip(" \t-*")]
    return lines[-1][:200] if lines else "it printed nothing"


def _average(text: str) -> tuple[float, str]:
    """The average of the table, in Gb/s; columns are found by their heading, as versions add some::

    #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
    65536      5000             197.33             197.31             0.376342
    """
    column = None
    for line in text.splitlines():
        if line.lstrip().startswith("#bytes"):
            headings = re.findall(r"#\w+|(?:BW |MsgRate ?)\w*\[[^\]]+\]", line)
            names = [name for name in headings if name == "BW average[Gb/sec]"]
            column = headings.index(names[0]) if names else None
        elif column is not None:
            words = line.split()
            if len(words) > column and words[0].isdecimal() and re.fullmatch(r"\d{1,6}(?:\.\d{1,6})?", words[column]):
                value = float(words[column])
                return (value, "") if value > 0 else (0.0, "its average is 0")
    return 0.0, f"no bandwidth was printed: {text.strip()[-200:] or 'nothing at all'}"


def _ports() -> list[_Port]:
    found = []
    for folder in sorted(glob.glob(f"{_ROOT}/*/ports/[0-9]*")):
        device, number = folder.split("/")[-3], folder.rpartition("/")[2]
        if number.isdecimal() and "ACTIVE" in _read(f"{folder}/state"):
            driver = _driver(device)
            board = _read(f"{_ROOT}/{device}/hca_type") or _read(f"{_ROOT}/{device}/board_id") or driver
            found.append(_Port(device, int(number), driver, board, _read(f"{folder}/rate"), _gid(folder)))
    return found


def _driver(device: str) -> str:
    """The kernel's driver; of Soft-RoCE and Soft-iWARP, which have no NIC, their module. Empty if unknown."""
    base = f"{_ROOT}/{device}"
    if os.path.exists(f"{base}/parent"):
        return "rdma_rxe"
    if device.startswith("siw") and not os.path.exists(f"{base}/hca_type"):
        return "siw"
    link = f"{base}/device/driver"
    return os.path.basename(os.path.realpath(link)) if os.path.exists(link) else ""


def _gid(folder: str) -> int | None:
    """Of RoCE version 2 the one with an IPv4 address, else any; None where the link layer is InfiniBand."""
    if _read(f"{folder}/link_layer") != "Ethernet":
        return None
    second = [
        int(os.path.basename(path))
        for path in glob.glob(f"{folder}/gid_attrs/types/[0-9]*")
        if _read(path) == "RoCE v2"
    ]
    four = [index for index in second if _read(f"{folder}/gids/{index}").startswith("0000:0000:0000:0000:0000:ffff:")]
    return min(four or second, default=0)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
