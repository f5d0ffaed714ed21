"""Arrange the playbooks as the Ansible collection raybench.cluster: ``python .ci/collection.py FOLDER``.

The archive is built in FOLDER. Modules move to ``plugins/``, roles and playbooks keep their places, and the
checks, which need the standard library only, travel along below ``raybench/``. The same source gives the same archive,
byte by byte, wherever and by whom it is built; SOURCE_DATE_EPOCH dates what is in it.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
NAME = ("raybench", "cluster")
# Where each folder beside the playbooks stands in a collection.
_PLUGINS = {
    "library": "modules",
    "module_utils": "module_utils",
    "action_plugins": "action",
    "filter_plugins": "filter",
}
_DATE = 1580601600  # 2020-02-02, that of the wheel
_IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc", "runs")


def arrange(folder: Path) -> None:
    """Write the collection's tree to an empty folder."""
    source = ROOT / "playbooks"
    for name, plugins in _PLUGINS.items():
        if (source / name).is_dir():
            shutil.copytree(source / name, folder / "plugins" / plugins, ignore=_IGNORED)
    shutil.copytree(source / "roles", folder / "roles", ignore=_IGNORED)
    (folder / "playbooks").mkdir()
    for path in source.iterdir():
        if path.suffix == ".yml":
            shutil.copy(path, folder / "playbooks")
        elif path.is_dir() and path.name not in {*_PLUGINS, "roles", "runs"}:
            shutil.copytree(path, folder / "playbooks" / path.name, ignore=_IGNORED)
    _own_module_utils(folder / "plugins")
    for name in (
        "raybench/preflight",
        "raybench/finding_rules",
        "raybench/hardware",
        "raybench/benchmarks/node_tests",
        "diagnostics",
    ):
        shutil.copytree(ROOT / name, folder / name, ignore=_IGNORED)
    for name in (
        "__init__",
        "version",
        "errors",
        "units",
        "whole_file",
        "verdicts",
        "stats",
        "rounds",
        "peers/__init__",
        "peers/judgement",
        "host_ranges",
        "unreachable",
        "documents/__init__",
        "documents/plain",
        "documents/fabric",
        "documents/preflight",
        "documents/preflight_nodes",
        "documents/preflight_problems",
    ):
        target = folder / f"raybench/{name}.py"
        target.parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / f"raybench/{name}.py", target)
    for name in ("LICENSE", "README.md"):
        shutil.copy(ROOT / name, folder)
    (folder / "meta").mkdir()
    (folder / "meta/runtime.yml").write_text('---\nrequires_ansible: ">=2.18.0"\n', encoding="utf-8")
    (folder / "galaxy.yml").write_text(yaml.safe_dump(_galaxy(), sort_keys=False), encoding="utf-8")


def _own_module_utils(plugins: Path) -> None:
    """Point imports of our module_utils to the collection: beside a playbook they are found as Ansible's own."""
    utilities = plugins / "module_utils"
    names = [path.stem for path in utilities.iterdir()] if utilities.is_dir() else []
    for path in plugins.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for name in names:
            ours = f"ansible_collections.{'.'.join(NAME)}.plugins.module_utils.{name}"
            text = re.sub(rf"\bansible\.module_utils\.{name}\b", ours, text)
        path.write_text(text, encoding="utf-8")


def _galaxy() -> dict[str, object]:
    version = re.search(r'__version__ = "([^"]+)"', (ROOT / "raybench/version.py").read_text(encoding="utf-8"))
    assert version is not None
    return {
        "namespace": NAME[0],
        "name": NAME[1],
        "version": version[1],
        "readme": "README.md",
        "authors": ["The raybench contributors"],
        "description": "Preflight, fabric tests, configuration and Ray clusters for GPU training",
        "license_file": "LICENSE",
        "tags": ["gpu", "rdma", "infiniband", "nccl", "ray"],
    }


def settle(archive: Path) -> None:
    """Write an archive again without what differs from build to build: times, owners, modes, the order of files."""
    with tarfile.open(archive) as built:
        content = {one.name: built.extractfile(one) for one in built.getmembers()}
        files = {name: None if stream is None else stream.read() for name, stream in content.items()}
    listed = json.loads(files["FILES.json"] or b"")
    listed["files"].sort(key=lambda one: one["name"])
    files["FILES.json"] = json.dumps(listed, indent=True).encode()
    manifest = json.loads(files["MANIFEST.json"] or b"")
    manifest["file_manifest_file"]["chksum_sha256"] = hashlib.sha256(files["FILES.json"]).hexdigest()
    files["MANIFEST.json"] = json.dumps(manifest, indent=True).encode()
    date = int(os.environ.get("SOURCE_DATE_EPOCH", _DATE))
    with (
        archive.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=date) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as whole,
    ):
        for name, data in sorted(files.items()):
            _add(whole, name, data, date)


def _add(whole: tarfile.TarFile, name: str, data: bytes | None, date: int) -> None:
    """A file that everybody may read; a folder where there is no content."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = (tarfile.DIRTYPE, 0o755) if data is None else (tarfile.REGTYPE, 0o644)
    entry.mtime, entry.size = date, len(data or b"")
    whole.addfile(entry, None if data is None else io.BytesIO(data))


def main() -> int:
    """Arrange in a temporary folder, build and settle. Returns ansible-galaxy's status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the archive goes")
    target = parser.parse_args().folder.absolute()
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        arrange(Path(scratch))
        program = Path(sys.executable).parent / "ansible-galaxy"
        command = [program, "collection", "build", "--force", "--output-path", target, scratch]
        status = subprocess.run(command, check=False, timeout=300).returncode
    if status == 0:
        settle(target / f"{'-'.join(NAME)}-{_galaxy()['version']}.tar.gz")
    return status


if __name__ == "__main__":
    sys.exit(main())
