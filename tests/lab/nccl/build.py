"""NCCL's host sources, with no device code, as a library over the emulated machine: ``built(release)``.

Every kernel becomes an empty entry, so that a launch is known by its name. NCCL's files have structures of the same
name and different size (``sendResources``), and templates over them: at -O0 the linker would keep one for all, so each
object gets weak names of its own.
"""

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.lab.errors import LabSetupError

from .cache import cached
from .headers import cuda_headers
from .release import Release, unpack

_SCRIPT = Path(__file__)
_EMULATION = _SCRIPT.with_name("emulation")
_PLAYER = _EMULATION / "player.cc"
_FIRST_HEADERS = ("core.h", "comm.h", "bootstrap.h", "transport.h")
_NOT_BUILT = re.compile(r"/device/|/ras/client\.cc$|windows|_stub\.cc$|/(enhcompat|ncclparam)\.cc$")
_VERSION_FIELD = re.compile(r"^NCCL_(\w+) *:= *(\S*)", re.MULTILINE)
_DEFINES = ("PROFAPI", "NCCL_OS_LINUX", "NCCL_GIN_PROXY_ENABLE=1")
_DOCA_DEFINES = ("DOCA_VERBS_USE_CUDA_WRAPPER", "DOCA_VERBS_USE_NET_WRAPPER")
_COMPILE_SECONDS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """Folders of a build: NCCL's source, CUDA's headers, objects in ``work``, the libraries in ``out``."""

    release: Release
    source: Path
    cuda: Path
    work: Path
    out: Path

    @property
    def flags(self) -> list[str]:
        """Flags of the compiler for NCCL's files."""
        src = self.source / "src"
        version = re.search(r"^#define CUDA_VERSION *(\d+)", (self.cuda / "cuda.h").read_text(), re.MULTILINE)
        assert version is not None, f"{self.cuda}/cuda.h tells no CUDA_VERSION"
        cuda_major, cuda_minor = divmod(int(version[1]) // 10, 100)
        defines = (*_DEFINES, *_DOCA_DEFINES, f"CUDA_MAJOR={cuda_major}", f"CUDA_MINOR={cuda_minor}")
        folders = [src, src / "include", src / "include" / "plugin", src / "include" / "os", self.work, self.cuda]
        folders += sorted(src.glob("**/doca-gpunetio/include"))
        return [
            *(f"-I{folder}" for folder in folders),
            *(f"-D{name}" for name in defines),
            *(f"-fmacro-prefix-map={src}/=", "-fPIC", "-std=c++17", "-O0", "-w"),
        ]


def built(release: Release) -> Path:
    """The folder with libnccl.so.2 of a release and the libraries that it runs on, built once."""
    emulation = sorted(path for path in _EMULATION.iterdir() if path != _PLAYER)
    return cached(f"{release.tag}-{_digest(_SCRIPT, _PLAYER, *emulation)}", lambda out: _furnish(release, out))


def _furnish(release: Release, out: Path) -> None:
    """NCCL beside the emulated machine: a change of that alone compiles no NCCL again."""
    _build_emulation(cuda_headers(release.cuda_major), out)
    kept = cached(f"{release.tag}-nccl-{_digest(_SCRIPT, _PLAYER)}", lambda alone: build(release, alone))
    os.link(kept / "libnccl.so.2", out / "libnccl.so.2")


def _digest(*paths: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def build(release: Release, out: Path) -> None:
    """Build one release's library into an empty folder. Raises LabSetupError with what the compiler said."""
    with TemporaryDirectory(dir=out.parent) as name:
        work = Path(name)
        source = unpack(release, work / "source")
        plan = Build(release=release, source=source, cuda=cuda_headers(release.cuda_major), work=work, out=out)
        _make_headers(plan)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            compiled = list(pool.map(lambda path: _compile(plan, path), _sources(plan)))
            undefined = {fields[-1] for fields in _symbols(compiled, "--undefined-only")}
            objects = list(pool.map(lambda path: _own_names(path, undefined), compiled))
        objects.append(_stand_in_for_kernels(plan, objects))
        _link(plan, objects)


def _make_headers(plan: Build) -> None:
    """What NCCL's own build would generate: nccl.h, tables of kernels; and the header that is compiled first."""
    source, work = plan.source / "src", plan.work
    fields = dict(_VERSION_FIELD.findall((plan.source / "makefiles" / "version.mk").read_text()))
    fields["VERSION"] = str(plan.release.code)
    text = (source / "nccl.h.in").read_text()
    (work / "nccl.h").write_text(re.sub(r"\$\{nccl:(\w+)\}", lambda field: fields[field[1].upper()], text))
    for script, into in ("device/generate.py", "device"), ("device/symmetric/generate.py", "symmetric"):
        if (source / script).is_file():
            target = work / "generated" / into
            target.parent.mkdir(exist_ok=True)
            _call([sys.executable, source / script, target])
    if (source / "misc" / "generate_git_version.py").is_file():
        for name in ("git_version.h", "nccl_git_version.h"):  # up to 2.29.3 and since
            _call([sys.executable, "misc/generate_git_version.py", work / name], folder=source)
    known = ["nccl.h", *(name for name in _FIRST_HEADERS if (source / "include" / name).is_file())]
    first = work / "first.h"
    first.write_text("#include <cuda_runtime.h>\n" + "".join(f'#include "{name}"\n' for name in known))
    _call(["g++", *plan.flags, "-x", "c++-header", first, "-o", f"{first}.gch"])


def _sources(plan: Build) -> list[Path]:
    source = plan.source / "src"
    found = [*source.rglob("*.cc"), *source.glob("**/doca-gpunetio/src/*.cpp")]
    chosen = [path for path in found if not _NOT_BUILT.search(f"/{path.relative_to(source)}")]
    player = [_PLAYER] if plan.release.has_player else []
    return [*sorted(chosen), *sorted(plan.work.glob("generated/**/*.cc")), *player]


def _compile(plan: Build, path: Path) -> Path:
    """One object. A file that does not bear the precompiled header is compiled without."""
    target = plan.work / f"{'_'.join(path.parts[-3:])}.o"
    first = ["-include", str(plan.work / "first.h")]
    for extra in (first, []):
        command = ["g++", *extra, *plan.flags, "-c", str(path), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_COMPILE_SECONDS)
        if done.returncode == 0:
            return target
    raise LabSetupError(f"NCCL {plan.release.tag} does not compile, {path.name}: {done.stderr.strip()[-2000:]}")


def _build_emulation(cuda: Path, out: Path) -> None:
    """The driver, the runtime, NVML and the adapters; those in a folder of their own, for nodes that have some."""
    verbs = out / "verbs"
    verbs.mkdir()
    command = ["gcc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-fPIC", "-shared"]

    def library(target: Path, source: str, *more: str | Path) -> None:
        _call([*command, f"-Wl,-soname,{target.name}", "-o", target, _EMULATION / source, *more])

    library(out / "libcuda.so.1", "driver.c", "-lpthread", "-ldl")
    (out / "libcuda.so").symlink_to("libcuda.so.1")
    library(out / "libnvidia-ml.so.1", "nvml.c")
    runtime = (f"-I{cuda}", "-Wno-unused-parameter", out / "libcuda.so.1")
    library(out / "libcudart-emulated.so", "runtime.c", *runtime)
    library(out / "libsystem-faults.so", "system.c", "-lpthread", "-ldl")
    (out / "gdrcopy").mkdir()
    library(out / "gdrcopy" / "libgdrapi.so", "gdrapi.c")
    symbols = f"-Wl,--version-script={_EMULATION / 'verbs.map'}"
    library(verbs / "libibverbs.so.1", "verbs.c", _EMULATION / "wire.c", symbols, "-lpthread")
    (verbs / "libibverbs.so").symlink_to("libibverbs.so.1")  # NCCL looks for this name first


def _symbols(paths: Iterable[Path], option: str) -> list[list[str]]:
    """Fields of what nm lists: ``[address] kind name``."""
    listed = _call(["nm", option, *paths])
    return [fields for line in listed.splitlines() if len(fields := line.split()) in (2, 3)]


def _own_names(path: Path, undefined: set[str]) -> Path:
    """The object with its weak functions of NCCL's named for itself, but for those that other objects ask for."""
    weak = [fields[2] for fields in _symbols([path], "--defined-only") if fields[1:2] == ["W"]]
    mine = [name for name in weak if re.match(r"_Z\d+nccl", name) and name not in undefined]
    names = path.with_suffix(".names")
    names.write_text("".join(f"{name} {name}.{path.name}\n" for name in mine))
    target = path.with_suffix(".own.o")
    _call(["objcopy", f"--redefine-syms={names}", path, target])
    return target


def _stand_in_for_kernels(plan: Build, objects: Sequence[Path]) -> Path:
    """An entry that does nothing for each kernel, and for what only device code has."""
    wanted = {fields[-1] for fields in _symbols(objects, "--undefined-only") if "nccl" in fields[-1]}
    missing = sorted(wanted - {fields[-1] for fields in _symbols(objects, "--defined-only")})
    entry = ".globl {0}\n.type {0},@function\n{0}: xorl %eax,%eax\nret\n.size {0},.-{0}\n"
    text = [".text\n", *map(entry.format, missing), '.section .note.GNU-stack,"",@progbits\n']
    source = plan.work / "kernels.s"
    source.write_text("".join(text))
    _call(["gcc", "-c", source, "-o", source.with_suffix(".o")])
    return source.with_suffix(".o")


def _link(plan: Build, objects: Sequence[Path]) -> None:
    machine = plan.work / "machine"
    machine.mkdir()
    _build_emulation(plan.cuda, machine)
    options = ["-Bsymbolic", "-z,defs", "-soname,libnccl.so.2", "-rpath,$ORIGIN", f"-rpath-link,{machine}"]
    flags = [f"-Wl,{option}" for option in options]
    libraries: list[str | Path] = [machine / "libcudart-emulated.so", "-lpthread", "-lrt", "-ldl"]
    _call(["g++", "-shared", *flags, "-o", plan.out / "libnccl.so.2", *objects, *libraries])


def _call(command: Sequence[str | Path], folder: Path | None = None) -> str:
    """The output of a program. Raises LabSetupError with what it wrote when it failed."""
    arguments = [str(part) for part in command]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False, timeout=_COMPILE_SECONDS)
    if done.returncode != 0:
        raise LabSetupError(f"{arguments[0]} failed while NCCL was built: {done.stderr.strip()[-2000:]}")
    return done.stdout
