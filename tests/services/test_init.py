"""A first inventory as a call. What names of hosts may be is in tests/cli/test_init.py."""

from pathlib import Path

import pytest

from raybench.errors import UsageError
from raybench.hosts.inventory import read_inventory
from raybench.services.init import write_inventory


def test_an_inventory_is_written_as_it_is_read_and_never_over_another(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    written = write_inventory(["gpu-[1-3]"], path, head="gpu-2")
    assert (written.hosts, written.head, written.workers) == (("gpu-1", "gpu-2", "gpu-3"), "gpu-2", ("gpu-1", "gpu-3"))
    read, text = read_inventory([path]), path.read_text()
    assert (sorted(read.names), read.groups["ray_head"]) == (list(written.hosts), ("gpu-2",))
    for names, head, said in ((["n1"], None, "is there already"), (["n1"], "n2", "--head n2 is none of the 1 hosts")):
        with pytest.raises(UsageError, match=said):
            write_inventory(names, path, head=head, force=head is not None)
    assert path.read_text() == text
