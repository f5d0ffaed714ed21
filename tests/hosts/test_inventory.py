"""Inventories: what is read of them, and what is refused before a playbook sees it."""

import json
import os
from pathlib import Path

import pytest
import yaml

from raybench.errors import UsageError
from raybench.hosts.inventory import Host, Inventory, inventory_problems, parse_inventory, read_inventory
from tests.playbooks.local import require_ansible

LISTING = json.loads("""
{"_meta": {"hostvars": {"gpu-01": {"ansible_host": "10.0.0.1", "ansible_port": 22},
                        "gpu-02": {"ansible_host": "{{ inventory_hostname }}.lan"}}},
 "all": {"children": ["ungrouped", "ray_head", "rack"]},
 "rack": {"children": ["ray_workers", "empty"]},
 "ray_head": {"hosts": ["gpu-01"]},
 "ray_workers": {"hosts": ["gpu-02", "gpu-03"]}}
""")


def host(name: str = "gpu-01", **variables: object) -> Inventory:
    return Inventory(sources=(), hosts=(Host(name=name, address=name, variables=variables),), groups={})


def test_groups_hold_the_hosts_of_their_children() -> None:
    inventory = parse_inventory(LISTING)
    assert inventory.names == ("gpu-01", "gpu-02", "gpu-03")
    assert inventory.groups["rack"] == ("gpu-02", "gpu-03")
    assert inventory.groups["empty"] == ()
    assert [one.address for one in inventory.hosts] == ["10.0.0.1", None, "gpu-03"]
    assert inventory_problems(inventory) == ()


@pytest.mark.parametrize(
    "name",
    ["a b", "$(touch x)", "`x`", "a;b", "a'b", 'a"b', "a\nb", "{{ 7*7 }}", "-oProxyCommand=x", "a/b", "..", "", "a&b"],
)
def test_a_host_name_that_could_be_taken_for_more_is_refused(name: str) -> None:
    assert inventory_problems(host(name))


@pytest.mark.parametrize("name", ["gpu-01", "GPU01.cluster.example.com", "10.0.0.1", "node_7", "1"])
def test_an_ordinary_host_name_is_not(name: str) -> None:
    assert inventory_problems(host(name)) == ()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ansible_host", "-oProxyCommand=touch x"),
        ("ansible_host", "10.0.0.1 $(x)"),
        ("ansible_host", ["10.0.0.1"]),
        ("ansible_port", "22; x"),
        ("ansible_port", True),
        ("ansible_user", "root -o x"),
        ("ansible_python_interpreter", "/usr/bin/python3; touch x"),
        ("ansible_python_interpreter", "$(touch x)"),
        ("ansible_ssh_private_key_file", "key\n-o ProxyCommand=x"),
    ],
)
def test_a_connection_variable_that_could_be_taken_for_more_is_refused(variable: str, value: object) -> None:
    (problem,) = inventory_problems(host(**{variable: value}))
    assert variable in problem


def test_ordinary_connection_variables_are_not() -> None:
    ordinary = {
        "ansible_host": "fe80::1%eth0",
        "ansible_port": 2222,
        "ansible_user": "ubuntu",
        "ansible_python_interpreter": "auto_silent",
        "ansible_ssh_private_key_file": "~/.ssh/cluster key.pem",
        "notes": "anything; $(goes) {{ here }}",
    }
    assert inventory_problems(host(**ordinary)) == ()
    assert inventory_problems(host(ansible_python_interpreter="{{ ansible_playbook_python }}")) == ()


class TestReadByAnsible:
    @pytest.fixture(autouse=True)
    def available(self) -> None:
        require_ansible()

    @staticmethod
    def written(folder: Path, content: object) -> Path:
        path = folder / "hosts.yml"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return path

    @pytest.fixture
    def four(self, tmp_path: Path) -> Path:
        children = {"ray_head": {"hosts": {"n1": {}}}, "ray_workers": {"hosts": {"w[1:3]": {}}}}
        return self.written(tmp_path, {"all": {"children": children}})

    def test_ranges_limits_and_groups(self, four: Path) -> None:
        assert read_inventory([four]).names == ("n1", "w1", "w2", "w3")
        assert read_inventory([four], limit="w1,n1").names == ("n1", "w1")
        assert read_inventory([four], group="ray_workers", limit="!w2").names == ("w1", "w3")

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"limit": "nosuch"}, "nosuch"),
            ({"group": "ray_worker"}, "ray_head"),
            ({"limit": "n1", "group": "ray_workers"}, "ray_workers"),
        ],
    )
    def test_what_leaves_no_host_is_an_error(self, four: Path, options: dict[str, str], said: str) -> None:
        with pytest.raises(UsageError, match=said):
            read_inventory([four], **options)

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ({"all": {"hosts": {}}}, "no hosts"),
            (": [", "parse"),
            ({"all": {"hosts": {"a $(touch pwned)": {}}}}, "refused"),
            ({"all": {"hosts": {"a\nb": {}}}}, "refused"),
        ],
    )
    def test_an_inventory_that_cannot_be_used_is_an_error(self, tmp_path: Path, content: object, said: str) -> None:
        with pytest.raises(UsageError, match=said):
            read_inventory([self.written(tmp_path, content)])
        assert not list(tmp_path.glob("pwned"))

    def test_no_file_no_inventory(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"raybench init HOST"):
            read_inventory([tmp_path / "none.yml"])

    def test_a_source_that_takes_too_long(self, tmp_path: Path) -> None:
        script = self.written(tmp_path, "#!/bin/sh\nexec sleep 60\n")
        script.chmod(0o755)
        with pytest.raises(UsageError, match="within"):
            read_inventory([script], timeout_seconds=2)


@pytest.mark.timeout(20)
def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "hosts")
    with pytest.raises(UsageError, match="is a pipe or a device"):
        read_inventory([tmp_path / "hosts"])
