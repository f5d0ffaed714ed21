"""A simulated InfiniBand fabric: one leaf switch, an adapter a node, a subnet manager. Needs ibsim, not root.

Addresses and states are answered by the simulator in place of the kernel, to programs run under ``ibsim-run``.
"""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

_SWITCH = 0xB8599F0300C00010
_PROGRAMS = ("ibsim", "ibsim-run", "opensm", "ibstat", "perfquery")


def missing() -> str | None:
    """What to install where the simulator is not there."""
    absent = [name for name in _PROGRAMS if shutil.which(name, path=_path()) is None]
    return f"{', '.join(absent)} not found: apt-get install ibsim-utils infiniband-diags opensm" if absent else None


class Fabric:
    """A running simulator; ``say`` is its console."""

    def __init__(self, folder: Path) -> None:
        self._console = folder / "console"

    def say(self, line: str) -> None:
        """A command such as ``Unlink "node5"``."""
        with self._console.open("w") as console:
            console.write(f"{line}\n")


@contextlib.contextmanager
def fabric(folder: Path, rates: Mapping[str, str]) -> Iterator[Fabric]:
    """A fabric of nodes with links such as ``4xEDR``, until the block ends. Raises TimeoutError."""
    (folder / "net").write_text(network(rates))
    (folder / "cache").mkdir()
    os.mkfifo(folder / "console")
    simulation = Fabric(folder)
    held = os.open(folder / "console", os.O_RDWR)  # keeps the console open between commands
    environment = os.environ | {
        "PATH": _path(), "SIM_HOST": next(iter(rates)), "OSM_CACHE_DIR": str(folder / "cache"),
        "OSM_TMP_DIR": str(folder),
    }  # fmt: skip
    with contextlib.ExitStack() as stack:
        stack.callback(os.close, held)
        stack.enter_context(_running(["ibsim", "-s", "net"], folder, environment, held, folder / "ibsim.log"))
        _wait(folder / "ibsim.log", "simulator ready")
        manager = ["ibsim-run", "opensm", "-f", str(folder / "osm.log")]
        stack.enter_context(_running(manager, folder, environment, subprocess.DEVNULL, folder / "osm.out"))
        _wait_active(environment | {"SIM_HOST": list(rates)[-1]}, folder)
        yield simulation


def network(rates: Mapping[str, str]) -> str:
    """The fabric as ibnetdiscover writes it; ibsim takes widths and speeds from the comments."""
    ports = {name: number for number, name in enumerate(rates, start=1)}
    guids = {name: 0xB8599F0300A00000 + 2 * number for name, number in ports.items()}
    switch = f'"S-{_SWITCH:016x}"'
    lines = [
        *_head(0xD2F0, _SWITCH),
        f"switchguid=0x{_SWITCH:x}({_SWITCH:x})",
        f'Switch\t36 {switch}\t\t# "leaf1" enhanced port 0 lid 101 lmc 0',
        *(
            f'[{port}]\t"{name}"[1]({guids[name]:x}) \t\t# "{name} mlx5_0" lid {port} {rates[name]}'
            for name, port in ports.items()
        ),
    ]
    for name, port in ports.items():
        lines += [
            "",
            *_head(0x101B, guids[name]),
            f"caguid=0x{guids[name]:x}",
            f'Ca\t1 "{name}"\t\t# "{name} mlx5_0"',
            f'[1]({guids[name]:x}) \t{switch}[{port}]\t\t# lid {port} lmc 0 "leaf1" lid 101 {rates[name]}',
        ]
    return "\n".join([*lines, ""])


def _head(device: int, guid: int) -> list[str]:
    return ["vendid=0x2c9", f"devid=0x{device:x}", f"sysimgguid=0x{guid:x}"]


@contextlib.contextmanager
def _running(
    command: list[str], folder: Path, environment: Mapping[str, str], stdin: int, log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon in a session of its own, ended with what it started: ibsim-run stays as its program's parent."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=stdin, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait(60)


def _wait(log: Path, text: str, seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if log.is_file() and text in log.read_text(errors="replace"):
            return
        time.sleep(0.1)
    raise TimeoutError(f"{log} does not say '{text}' after {seconds:.0f} s: {log.read_text()[-500:]}")


def _wait_active(environment: Mapping[str, str], folder: Path, seconds: float = 90.0) -> None:
    """Return once the manager has brought the last node's port up. Its log is written in blocks, and says so late."""
    deadline = time.monotonic() + seconds
    said = ""
    while "State: Active" not in said:
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"the port is not active after {seconds:.0f} s: {said}{(folder / 'osm.out').read_text()}"
            )
        time.sleep(0.2)
        said = subprocess.run(
            ["ibsim-run", "ibstat"],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        ).stdout


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
