"""The image that all virtual machines boot: Debian with rdma-core, perftest, iperf3, sshd, Python, and its kernel.

Built once into a folder, by mmdebstrap and without mounting anything. Three things are easy to get wrong: the plain
``linux-image-amd64`` is needed (the cloud one has no rdma_rxe), its package is only unpacked (installing it runs
initramfs-tools), and crc32_generic must be loaded by hand (rdma_rxe asks for it at run time).

What runs inside (``guest.py``) is not in it but laid over it at each boot, so that an image does not grow stale; one
that was built from another list of packages and modules is built anew.
"""

import lzma
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.errors import LabSetupError

PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "cpio": "cpio",
    "busybox": "busybox-static",
    "ssh-keygen": "openssh-client",
    "setpriv": "util-linux",
}
_PACKAGES = (
    "kmod,iproute2,rdma-core,ibverbs-providers,ibverbs-utils,infiniband-diags,perftest,openssh-server,python3,"
    "iperf3,procps,iputils-ping,ethtool"
)
_BOOT_MODULES = ("virtio_pci", "virtio_blk", "crc32c_generic", "ext4", "overlay", "virtio_net")
_MODULES = (
    "rdma_rxe", "crc32_generic", "ib_umad", "ib_uverbs", "rdma_ucm", "virtio_rng", "sch_netem", "sch_tbf",
    "9pnet_virtio", "9p",
)  # fmt: skip
_XZ = b"\xfd7zXZ\x00"
_BUILD_SECONDS = 1500
_BUILT_FROM = f"{_PACKAGES} {_BOOT_MODULES} {_MODULES}"
FOLDER_VARIABLE = "RAYBENCH_RDMA_LAB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """Files that QEMU boots, and the key that the machines let in."""

    kernel: Path
    initrd: Path
    root: Path
    key: Path


def missing_programs() -> list[str]:
    """Debian packages of programs that are not installed."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    return sorted({package for program, package in PROGRAMS.items() if shutil.which(program, path=path) is None})


def build_image(folder: Path) -> Image:
    """The image in a folder, built there if it is not. Raises LabSetupError where a step fails."""
    image = Image(
        kernel=folder / "vmlinux", initrd=folder / "initrd.cpio", root=folder / "rootfs.ext4", key=folder / "key"
    )
    stamp = folder / "built-from"
    whole = all(path.is_file() for path in (image.kernel, image.initrd, image.root, image.key, stamp))
    if not whole or stamp.read_text() != _BUILT_FROM:
        folder.mkdir(parents=True, exist_ok=True)
        stamp.unlink(missing_ok=True)
        _build(folder, image)
        stamp.write_text(_BUILT_FROM)
    return image


def image_unavailable() -> str | None:
    """None where machines can be booted, else the reason why not, in words that say what would help."""
    if not os.environ.get(FOLDER_VARIABLE):
        return f"set {FOLDER_VARIABLE} to a folder for the image of a virtual machine (400 MB, minutes to build)"
    if os.geteuid() != 0:
        return "virtual machines need root"
    if missing_programs():
        return f"virtual machines need packages: apt-get install {' '.join(missing_programs())}"
    return None


def image_of_environment() -> Image:
    """The image in the folder that the environment names. Raises LabSetupError."""
    return build_image(Path(os.environ[FOLDER_VARIABLE]))


def _build(folder: Path, image: Image) -> None:
    tree, unpacked = folder / "root", folder / "kernel"
    for old in (tree, unpacked, folder / "initrd"):
        shutil.rmtree(old, ignore_errors=True)
    if not image.key.exists():
        _run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", image.key])
    leave_out = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale")]
    flags = ["--quiet", "--variant=minbase", "--mode=root", f"--include={_PACKAGES}", "--dpkgopt=force-unsafe-io"]
    no_more = '--aptopt=APT::Install-Recommends "false"'
    _run(["mmdebstrap", *flags, *leave_out, no_more, "bookworm", tree, *_sources()])
    release = _unpack_kernel(unpacked, tree)
    image.kernel.write_bytes(_elf((unpacked / f"boot/vmlinuz-{release}").read_bytes()))
    boot = _module_files(tree, release, _BOOT_MODULES)
    keep = [*boot, *_module_files(tree, release, _MODULES)]
    _write_initrd(folder / "initrd", image.initrd, tree, boot)
    _trim(tree, release, keep)
    _configure(tree)
    size = f"{int(_megabytes(tree) * 1.15) + 24}M"
    image.root.unlink(missing_ok=True)
    _run(["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal,^metadata_csum", "-m", "0", "-d", tree, image.root, size])
    for used in (tree, unpacked, folder / "initrd"):
        shutil.rmtree(used, ignore_errors=True)


def _sources() -> list[Path]:
    """This machine's own package sources, which are those that it can reach."""
    files = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    return [path for path in files if path.is_file() and path.suffix in {".list", ".sources"}]


def _unpack_kernel(unpacked: Path, tree: Path) -> str:
    unpacked.mkdir()
    depends = _run(["apt-cache", "depends", "linux-image-amd64"])
    package = next(line.split()[-1] for line in depends.splitlines() if "Depends: linux-image" in line)
    _run(["apt-get", "download", "-q", package], folder=unpacked)
    _run(["dpkg-deb", "-x", next(unpacked.glob("*.deb")), unpacked])
    release = next((unpacked / "lib/modules").iterdir()).name
    modules = tree / "usr/lib/modules" / release
    modules.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(unpacked / "lib/modules" / release, modules)
    _run(["chroot", tree, "depmod", "-a", release])
    return release


def _elf(packed: bytes) -> bytes:
    """The kernel inside vmlinuz. QEMU enters it through PVH, which saves three seconds of emulated unpacking."""
    at = packed.find(_XZ)
    while at >= 0:
        try:
            kernel = lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(packed[at:])
        except lzma.LZMAError:
            kernel = b""
        if kernel.startswith(b"\x7fELF"):
            return kernel
        at = packed.find(_XZ, at + 1)
    raise LabSetupError("there is no ELF kernel in vmlinuz")


def _module_files(tree: Path, release: str, names: Sequence[str]) -> list[str]:
    """Files of modules and of what they need, in the order in which they are loaded."""
    shown = [_run(["chroot", tree, "modprobe", "-S", release, "--show-depends", name]) for name in names]
    lines = [line.split() for text in shown for line in text.splitlines()]
    return list(dict.fromkeys(words[1] for words in lines if words[:1] == ["insmod"]))


def _write_initrd(folder: Path, target: Path, tree: Path, modules: Sequence[str]) -> None:
    for name in ("bin", "lib", "proc", "sys", "dev", "ro", "rw", "newroot"):
        (folder / name).mkdir(parents=True)
    shutil.copy(str(shutil.which("busybox")), folder / "bin/busybox")
    for file in modules:
        shutil.copy(tree / file.lstrip("/"), folder / "lib")
    (folder / "lib/order").write_text("".join(f"{Path(file).name}\n" for file in modules))
    target.write_bytes(archive_of(folder))


def archive_of(folder: Path) -> bytes:
    """A folder as the kernel takes it for an initramfs; several of them, one after another, are one."""
    names = "\n".join(str(path.relative_to(folder)) for path in [folder, *sorted(folder.rglob("*"))])
    command = ["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"]
    return subprocess.run(
        command, cwd=folder, input=names.encode(), capture_output=True, check=True, timeout=120
    ).stdout


def _trim(tree: Path, release: str, keep: Sequence[str]) -> None:
    """Of the modules, keep those that are used: 9 MB of 396."""
    wanted = {Path(file).name for file in keep}
    modules = tree / "usr/lib/modules" / release
    for path in modules.rglob("*.ko*"):
        if path.name not in wanted:
            path.unlink()
    _run(["chroot", tree, "depmod", "-a", release])


def _configure(tree: Path) -> None:
    (tree / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
    settings = "PasswordAuthentication no\nPermitRootLogin prohibit-password\nUseDNS no\nUsePAM no\n"
    (tree / "etc/ssh/sshd_config.d/lab.conf").write_text(f"HostKey /etc/ssh/ssh_host_ed25519_key\n{settings}")
    for path in (tree / "etc/ssh").glob("ssh_host_*"):
        path.unlink()
    for name in ("dev", "run", "tmp", "var/lib/apt/lists", "var/cache/apt"):
        shutil.rmtree(tree / name, ignore_errors=True)
        (tree / name).mkdir(parents=True)
    for name in ("ro", "rw"):
        (tree / name).mkdir(exist_ok=True)


def _megabytes(tree: Path) -> float:
    return sum(path.lstat().st_blocks * 512 for path in tree.rglob("*")) / 2**20


def _run(command: Sequence[str | Path], folder: Path | None = None) -> str:
    words = [str(word) for word in command]
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=_BUILD_SECONDS
    )
    if done.returncode != 0:
        raise LabSetupError(f"{' '.join(words)[:300]} failed: {done.stderr.strip()[-500:]}")
    return done.stdout
