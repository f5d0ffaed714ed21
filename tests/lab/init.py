"""What a node boots: ``python -I -S init.py HOSTNAME`` makes the namespaces, and its child is pid 1 of the node.

On standard input it takes the plan as JSON, see ``BootPlan`` in ``boot.py``. On standard output comes the pid of the
node's pid 1 as this machine counts, on a line of its own, then ``ready`` once the node is furnished. Pid 1 ends when
the owner of the lab does, because it holds a descriptor of the owner's process, and the kernel then kills all that is
left in the node. Nothing of a node outlives its processes: its mounts, links and host name are in namespaces that
have no name.
"""

import json
import os
import select
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import kernel
else:  # this file runs on its own, where no package is known
    sys.path.insert(0, str(Path(__file__).parent))
    import kernel

_STAGE = "/tmp"  # holds the writable side of the overlays, then a second tmpfs covers it


def launch(plan: dict[str, Any]) -> int:
    """Start pid 1, tell its number, and stay until it ends. Returns the exit status of pid 1."""
    kernel.unshare(kernel.EVERY_NAMESPACE)
    told, telling = os.pipe()
    child = os.fork()
    if child == 0:
        kernel.die_with_parent(signal.SIGKILL)
        os.close(telling)
        if os.read(told, 1):  # "ready" comes after the pid; nothing is there where the parent was killed before
            boot(plan)
        return 0
    os.write(1, f"{child}\n".encode())
    os.close(1)
    os.write(telling, b"1")
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) & 0xFF


def boot(plan: dict[str, Any]) -> None:
    """Be pid 1: furnish the node, start its sshd, then reap what is orphaned until the lab's owner is gone."""
    furnish(plan)
    if plan["daemon"]:  # goes into the background once it listens
        os.waitpid(os.posix_spawn(plan["daemon"][0], plan["daemon"], {"PATH": plan["path"]}), 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # from here on the kernel reaps orphans by itself
    os.write(1, b"ready\n")
    os.close(1)
    owner = select.poll()
    owner.register(plan["owner_descriptor"], select.POLLIN)
    while not owner.poll():
        pass


def furnish(plan: dict[str, Any]) -> None:
    """Give the node its own mounts, host name and files."""
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    kept = {path: os.open(path, os.O_PATH) for path in plan["visible"]}
    _overlay(plan["overlaid"])
    for path, mode in plan["emptied"].items():
        kernel.mount("tmpfs", path, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, f"mode={mode}")
    kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV)
    _mount_sys()
    for path, descriptor in kept.items():
        _bind(descriptor, path)
    for path, file in plan["files"].items():
        write(Path(path), **file)
    os.chdir("/")
    Path("/proc/sys/kernel/hostname").write_text(plan["hostname"])


def _overlay(folders: list[str]) -> None:
    """Lay a private writable layer over each folder: what the machine has shows through, no write reaches it."""
    if not folders:
        return
    kernel.mount("tmpfs", _STAGE, "tmpfs", 0, "mode=755")
    for number, folder in enumerate(folders):
        upper, work = Path(_STAGE, f"{number}.upper"), Path(_STAGE, f"{number}.work")
        upper.mkdir(mode=Path(folder).stat().st_mode & 0o7777)
        work.mkdir()
        kernel.mount("overlay", folder, "overlay", 0, f"lowerdir={folder},upperdir={upper},workdir={work}")


def _mount_sys() -> None:
    """Show the node's own /sys/class/net, and the machine's control groups, which a new sysfs does not hold."""
    groups = os.open("/sys/fs/cgroup", os.O_PATH)
    kernel.mount("sysfs", "/sys", "sysfs", kernel.MS_NOSUID | kernel.MS_NODEV)
    _bind(groups, "/sys/fs/cgroup")


def _bind(descriptor: int, path: str) -> None:
    if not Path(path).exists():
        Path(path).mkdir(parents=True)
    kernel.mount(f"/proc/self/fd/{descriptor}", path, flags=kernel.MS_BIND | kernel.MS_REC)
    os.close(descriptor)


def write(path: Path, *, text: str, mode: int) -> None:
    """Write one file of the node, readable by those that ``mode`` says, in a folder as closed as the file."""
    if not path.parent.exists():
        path.parent.mkdir(parents=True, mode=0o700 if mode & 0o77 == 0 else 0o755)
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(mode)


if __name__ == "__main__":
    sys.exit(launch(json.load(sys.stdin)))
