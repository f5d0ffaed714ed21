"""One virtual machine: a process of QEMU in the network of the lab that it belongs to."""

import contextlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.errors import LabSetupError

from .guest import INIT, INITRAMFS_INIT, SETUP
from .image import Image, archive_of

BOOT_SECONDS = 900  # nobody waits for it but the lab itself: 7 s of a processor, of which others may leave a tenth
_MONITOR_SECONDS = 120
_READY = "LAB ready"
_SILENT = re.compile(r"[^\x20-\x7e\n]")
# Without no_timer_check the kernel panics now and then where processors are short.
_KERNEL_LINE = (
    "console=ttyS0 quiet reboot=t panic=-1 mitigations=off nokaslr tsc=reliable net.ifnames=0 audit=0 "
    "random.trust_cpu=on no_timer_check"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tap:
    """A NIC of a machine, at a tap device that is there. ``speed`` is what it declares, in Mb/s."""

    device: str
    address: str
    speed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a machine is. ``settings`` are those of ``guest.py``, ``files`` its own by path, ``shares`` read only.

    ``reboots``: it comes back from a reset; else its process ends with it.
    """

    name: str
    taps: Sequence[Tap]
    settings: Mapping[str, str]
    memory_mib: int = 320
    processors: int = 1
    files: Mapping[str, str] = field(default_factory=dict)
    shares: Sequence[Path] = ()
    reboots: bool = False


class Machine:
    """A machine that is starting. ``enter`` are the words before QEMU's own, that put it into its network."""

    def __init__(self, shape: Shape, image: Image, enter: Sequence[str]) -> None:
        self.name = shape.name
        self._folder = Path(tempfile.mkdtemp(prefix="raybench-vm-"))
        self._process: subprocess.Popen[bytes] | None = None
        try:
            initrd = self._folder / "initrd"
            initrd.write_bytes(_aligned(image.initrd.read_bytes()) + _own_files(shape, self._folder / "own"))
            command = [*enter, *map(str, _command(shape, image, self._folder, initrd))]
            bound = ["setpriv", "--pdeathsig", "KILL", *command]
            with (self._folder / "qemu").open("wb") as said:
                self._process = subprocess.Popen(bound, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        except BaseException:
            self.close()
            raise

    def wait(self, boots: int = 1, seconds: float = BOOT_SECONDS) -> None:
        """Return when it is up for the first time, or for another. Raises LabSetupError."""
        assert self._process is not None
        end = time.monotonic() + seconds
        while self._console().count(_READY) < boots:
            if self._process.poll() is not None:
                said = (self._folder / "qemu").read_text(errors="replace")
                raise LabSetupError(f"{self.name} ended while it booted: {self._tail()} {said[-300:]}")
            if time.monotonic() > end:
                raise LabSetupError(f"{self.name} was not up within {seconds:.0f} s: {self._tail()}")
            time.sleep(0.2)

    def reset(self) -> None:
        """Press its reset button: nothing is written, nobody is told."""
        self.say("system_reset")

    def say(self, command: str) -> None:
        """A command to QEMU's monitor. What is not read yet when the connection closes is never done."""
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(_MONITOR_SECONDS)
            monitor.connect(str(self._folder / "monitor"))
            _await_prompt(monitor)
            monitor.sendall(f"{command}\n".encode())
            _await_prompt(monitor)

    def close(self) -> None:
        """End it by its process id. Safe to call twice."""
        if self._process is not None:
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(20)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _console(self) -> str:
        path = self._folder / "console"
        return path.read_text(errors="replace") if path.exists() else ""

    def _tail(self) -> str:
        return _SILENT.sub("", self._console()[-600:]).strip() or "nothing on its console"


def _own_files(shape: Shape, folder: Path) -> bytes:
    """What it has beside the image, as one more initramfs: what runs inside it, and its own files below /own."""
    programs = {"/usr/sbin/lab-init": INIT, "/usr/sbin/lab-setup": SETUP}
    files = {"/init": INITRAMFS_INIT} | {f"/own{path}": text for path, text in {**programs, **shape.files}.items()}
    folder.mkdir()
    for name, text in files.items():
        path = folder / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if text.startswith("#!") else 0o600)
    return archive_of(folder)


def _aligned(archive: bytes) -> bytes:
    return archive + b"\0" * (-len(archive) % 4)


def _command(shape: Shape, image: Image, folder: Path, initrd: Path) -> list[str | Path]:
    settings = {"host": shape.name} | dict(shape.settings)
    if shape.shares:
        settings["shares"] = ",".join(map(str, shape.shares))
    line = " ".join((_KERNEL_LINE, *(f"lab.{name}={value}" for name, value in settings.items())))
    return [
        "qemu-system-x86_64", "-accel", "tcg,thread=multi,tb-size=128", "-M", "q35", "-cpu", "max",
        "-smp", str(shape.processors), "-m", str(shape.memory_mib), "-nodefaults", "-no-user-config",
        "-display", "none", *(() if shape.reboots else ("-no-reboot",)),
        "-serial", f"file:{folder / 'console'}", "-monitor", f"unix:{folder / 'monitor'},server,nowait",
        "-kernel", image.kernel, "-initrd", initrd, "-append", line,
        "-drive", f"if=none,id=d0,file={image.root},format=raw,readonly=on",
        "-device", "virtio-blk-pci,drive=d0", "-device", "virtio-rng-pci",
        *(word for number, tap in enumerate(shape.taps) for word in _nic(number, tap)),
        *(word for number, path in enumerate(shape.shares) for word in _share(number, path)),
    ]  # fmt: skip


def _nic(number: int, tap: Tap) -> Sequence[str]:
    """A NIC, ``n0`` the first. Soft-RoCE takes its rate from what it declares."""
    rate = f",speed={tap.speed},duplex=full" if tap.speed else ""
    return (
        "-netdev", f"tap,id=n{number},ifname={tap.device},script=no,downscript=no",
        "-device", f"virtio-net-pci,netdev=n{number},mac={tap.address}{rate}",
    )  # fmt: skip


def _share(number: int, path: Path) -> Sequence[str]:
    return (
        "-fsdev", f"local,id=f{number},path={path},security_model=none,readonly=on,multidevs=remap",
        "-device", f"virtio-9p-pci,fsdev=f{number},mount_tag=share{number}",
    )  # fmt: skip


def _await_prompt(monitor: socket.socket) -> None:
    said = b""
    while not said.endswith(b"(qemu) "):
        piece = monitor.recv(4096)
        if not piece:
            raise LabSetupError("the machine's monitor hung up")
        said += piece
