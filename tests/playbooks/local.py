"""Inventories of hosts that are all this machine, for tests that need Ansible but no ssh."""

import sys
from pathlib import Path

import pytest
import yaml

from raybench.hosts.inventory import Inventory, parse_inventory


def local_inventory(folder: Path, *names: str) -> Inventory:
    """Hosts of these names, each reached without ssh: as Ansible reads them, which takes it a second."""
    path = folder / "hosts.yml"
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    path.write_text(yaml.safe_dump({"all": {"hosts": {name: {} for name in names}, "vars": variables}}))
    listing = {"_meta": {"hostvars": dict.fromkeys(names, variables)}, "all": {"children": ["ungrouped"]}}
    return parse_inventory(listing | {"ungrouped": {"hosts": list(names)}}, (str(path),))


def require_ansible() -> None:
    """Skip the tests of a module where Ansible is not installed."""
    pytest.importorskip("ansible", reason="Ansible is not installed: pip install '.[ansible]'")
    pytest.importorskip("ansible_runner", reason="ansible-runner is not installed: pip install '.[ansible]'")
