"""``raybench init``: an inventory from names, host files and schedulers, read again as it is meant."""

from pathlib import Path

import pytest
import yaml

from raybench.errors import UsageError
from raybench.hosts.inventory import read_inventory
from raybench.hosts.inventory_draft import draft_text, hosts_of, names_of_hostfile, names_of_job
from tests.command import answer
from tests.playbooks.local import require_ansible


def test_names_with_ranges_users_and_addresses_become_an_inventory(tmp_path: Path) -> None:
    require_ansible()
    path = tmp_path / "hosts.yml"
    done = answer("init", "--hosts", "gpu-[01-09]", "admin@login=10.0.0.9", "--head", "gpu-03", "-o", str(path))
    assert done.returncode == 0, done.stderr
    assert f"{path}: 10 hosts, head gpu-03, workers login, gpu-[01-02,04-09]" in done.stdout
    assert f"raybench preflight -i {path}" in done.stdout
    inventory = read_inventory([path])
    assert (len(inventory.hosts), inventory.groups["ray_head"]) == (10, ("gpu-03",))
    (login,) = [host for host in inventory.hosts if host.name == "login"]
    assert (login.address, login.variables["ansible_user"]) == ("10.0.0.9", "admin")
    assert "# ansible_user: ubuntu" in path.read_text()

    before = path.read_text()
    again = answer("init", "other", "-o", str(path))
    assert (again.returncode, path.read_text()) == (2, before)
    assert "is there already; --force replaces it" in again.stderr
    assert answer("init", "other", "-o", str(path), "--force").returncode == 0
    assert read_inventory([path]).names == ("other",)
    assert [one.name for one in tmp_path.iterdir()] == ["hosts.yml"]


@pytest.mark.parametrize("names", [["10", "no", "1e3", "null"], ["a.b-c_d"], [f"n{number}" for number in range(300)]])
def test_every_name_is_read_as_it_was_typed(names: list[str]) -> None:
    groups = yaml.safe_load(draft_text(hosts_of(names), names[0]))["all"]["children"]
    assert [*groups["ray_head"]["hosts"], *groups["ray_workers"]["hosts"]] == names


def test_host_files_of_mpi_and_schedulers_are_read() -> None:
    text = "# nodes\nn1 slots=8\nn2:4\n\nn3 8 all.q@n3 UNDEFINED  # SGE\nn1\n"
    assert names_of_hostfile(text) == ("n1", "n2", "n3")


def test_a_job_tells_its_nodes(tmp_path: Path) -> None:
    assert names_of_job({"SLURM_JOB_NODELIST": "gpu[01-03],x"}) == (
        ("gpu01", "gpu02", "gpu03", "x"),
        "SLURM_JOB_NODELIST",
    )
    (tmp_path / "nodes").write_text("a\na\nb\n")
    assert names_of_job({"PBS_NODEFILE": str(tmp_path / "nodes")}) == (("a", "b"), "PBS_NODEFILE")
    assert names_of_job({"HOME": "/root"}) == ((), "")
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        names_of_job({"PBS_NODEFILE": str(tmp_path / "none")})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a;b"], "'a;b' is not a host; write gpu-01"),
        (["-o", "x.yml", "--", "-oProxyCommand=x"], "is not a host"),
        (["n[2-1]"], "the range '2-1'"),
        (["a=1.1.1.1", "a=2.2.2.2"], "a is named twice"),
        (["a", "--head", "b"], "--head b is none of the 1 hosts"),
        (["--hostfile", "/nowhere"], "the host file /nowhere cannot be read: No such file"),
        (["a", "-o", "/nowhere/hosts.yml"], "/nowhere/hosts.yml cannot be written: No such file"),
        ([], "name the hosts: raybench init gpu-01 gpu-02"),
    ],
)
def test_what_names_no_host_is_refused(words: list[str], message: str) -> None:
    done = answer("init", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
