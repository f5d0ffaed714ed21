"""A repository of two small packages for apt in a node. They write below /etc only: /usr is the machine's."""

import hashlib
import subprocess
from pathlib import Path

from .node import Node

_SOURCES = "/etc/apt/sources.list.d"


def make_repository(node: Node, folder: Path) -> None:
    """Build ``raybench-lab-one``, which needs ``raybench-lab-two``, and make them all that the node's apt knows."""
    repository = folder / "packages"
    repository.mkdir()
    entries = [_build(repository, "one", "Depends: raybench-lab-two\n"), _build(repository, "two", "")]
    (repository / "Packages").write_text("\n".join(entries))
    steps = (
        f"rm -rf {_SOURCES} /etc/apt/sources.list /var/lib/apt/lists && mkdir -p {_SOURCES} && "
        f"echo 'deb [trusted=yes] file:{repository} ./' > {_SOURCES}/lab.list && apt-get -q update"
    )
    node.run(["sh", "-c", steps], check=True, timeout=120)


def _build(repository: Path, name: str, more: str) -> str:
    tree = repository / name
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "etc").mkdir()
    (tree / "etc" / f"raybench-lab-{name}").write_text(f"{name}\n")
    control = (
        f"Package: raybench-lab-{name}\nVersion: 1\nArchitecture: all\nMaintainer: lab <lab@localhost>\n{more}"
        "Description: made for a test\n"
    )
    (tree / "DEBIAN" / "control").write_text(control)
    package = repository / f"raybench-lab-{name}_1_all.deb"
    command = ["dpkg-deb", "--root-owner-group", "-b", str(tree), str(package)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    content = package.read_bytes()
    return f"{control}Filename: ./{package.name}\nSize: {len(content)}\nSHA256: {hashlib.sha256(content).hexdigest()}\n"
