"""The playbooks as an installed collection and in a wheel: elsewhere, and without the checkout."""

import configparser
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.conftest import REPOSITORY
from tests.playbooks.local import require_ansible
from tests.playbooks.role_readme import ROLES, readme

BIN = Path(sys.executable).parent
DATE = 1500000000


def run(command: list[str | Path], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program of this environment, run where nothing of the checkout is, and without its path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ANSIBLE"))}
    return subprocess.run(
        command, cwd=folder, env=kept | environment, capture_output=True, text=True, check=False, timeout=200
    )


ROOT_PLAYBOOKS = sorted(
    path.name for path in REPOSITORY.glob("*.yml") if (REPOSITORY / "playbooks" / path.name).exists()
)
NOT_TYPED = {"contact.yml", "preflight_probe.yml", "targets.yml"}  # imported by others, or called by raybench


def test_the_readme_of_preflight_is_what_its_specification_says() -> None:
    assert (ROLES / "preflight/README.md").read_text() == readme(ROLES / "preflight")


def test_yaml_is_as_yamllint_wants_it() -> None:
    pytest.importorskip("yamllint", reason="yamllint is not installed: pip install '.[dev]'")
    done = run([sys.executable, "-m", "yamllint", "--strict", "playbooks", "inventory", *ROOT_PLAYBOOKS], REPOSITORY)
    assert done.returncode == 0, done.stdout


@pytest.mark.long  # every day ansible-lint, which asks Ansible the same of each
def test_every_playbook_is_syntactically_right() -> None:
    require_ansible()
    names = sorted(path.name for path in (REPOSITORY / "playbooks").glob("*.yml"))
    assert {"preflight.yml", "targets.yml"} <= set(names)
    assert set(ROOT_PLAYBOOKS) == set(names) - NOT_TYPED  # each that a user types works from the root, too
    for paths, folder in ((names, "playbooks"), ([*ROOT_PLAYBOOKS, *(f"playbooks/{name}" for name in names)], ".")):
        done = run([BIN / "ansible-playbook", "--syntax-check", *paths], REPOSITORY / folder)
        assert done.returncode == 0, done.stderr


def installed_collection(tmp_path: Path) -> Path:
    """The folder of collections that has ours, built and installed as a user does; the archive says nothing of that."""
    require_ansible()
    built = run([sys.executable, REPOSITORY / ".ci/collection.py", tmp_path], tmp_path, SOURCE_DATE_EPOCH=str(DATE))
    assert built.returncode == 0, built.stderr
    (archive,) = tmp_path.glob("raybench-cluster-*.tar.gz")
    says_nothing_of_its_build(archive)
    galaxy = [BIN / "ansible-galaxy", "collection", "install", "--offline", "-p", tmp_path / "installed", archive]
    installed = run([*galaxy], tmp_path)
    assert installed.returncode == 0, installed.stderr
    return tmp_path / "installed"


def test_the_collection_builds_installs_and_finds_its_parts(tmp_path: Path) -> None:
    collections = installed_collection(tmp_path)
    hosts = tmp_path / "hosts.yml"
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts.write_text(yaml.safe_dump({"all": {"hosts": {"n1": variables}}}))
    output = ["-e", f"preflight_output_dir={tmp_path}/report", "-e", '{"preflight_only": ["host-memlock"]}']
    play = [BIN / "ansible-playbook", "raybench.cluster.preflight", "-i", hosts, *output]
    done = run([*play], tmp_path, ANSIBLE_COLLECTIONS_PATH=str(collections))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "report/preflight.json").is_file()
    assert "raybench.cluster.preflight : " in done.stdout


def says_nothing_of_its_build(archive: Path) -> None:
    """Neither when and by whom, nor in which order a file system gave the files: so that two builds are one."""
    with tarfile.open(archive) as built:
        entries = built.getmembers()
        listed = built.extractfile("FILES.json")
        assert listed is not None
        names = [one["name"] for one in json.load(listed)["files"]]
    assert {(one.mtime, one.uid, one.gid, one.uname, one.gname) for one in entries} == {(DATE, 0, 0, "", "")}
    assert {one.mode for one in entries} == {0o755, 0o644}
    assert [one.name for one in entries] == sorted(one.name for one in entries)
    assert names == sorted(names)
    assert int.from_bytes(archive.read_bytes()[4:8], "little") == DATE  # gzip's own


FOREIGN = """
- hosts: all
  gather_facts: false
  tasks:
    - {ansible.builtin.import_role: {name: raybench.cluster.preflight}, ignore_errors: true}
    - {ansible.builtin.import_role: {name: raybench.cluster.fabric}}
    - {ansible.builtin.import_role: {name: raybench.cluster.nccl_config}}
    - {ansible.builtin.import_role: {name: raybench.cluster.gpu_peer_memory}}
    - {ansible.builtin.import_role: {name: raybench.cluster.network_mtu}}
    - {ansible.builtin.import_role: {name: raybench.cluster.pcie_access_control}}
    - {ansible.builtin.import_role: {name: raybench.cluster.rdma_driver}}
    - {ansible.builtin.import_role: {name: raybench.cluster.roce_qos}}
    - {ansible.builtin.import_role: {name: raybench.cluster.system_limits}}
    - {ansible.builtin.import_role: {name: raybench.cluster.time_sync}}
    - {ansible.builtin.import_role: {name: raybench.cluster.ray_node}, vars: {ray_node_state: probed}}
    - {ansible.builtin.import_role: {name: raybench.cluster.raybench_agent}, vars: {raybench_agent_state: absent}}
    - {ansible.builtin.import_role: {name: raybench.cluster.log_collect}}
    - {ansible.builtin.debug: {msg: "after the roles on {{ inventory_hostname }}"}}
- hosts: localhost
  gather_facts: false
  tasks:
    - {ansible.builtin.import_role: {name: raybench.cluster.fabric, tasks_from: report}, ignore_errors: true}
"""
HIDE = "import sys\nsys.path[:] = [one for one in sys.path if one != {repository!r}]\n"


@pytest.mark.long
def test_every_role_works_in_a_playbook_of_ones_own(tmp_path: Path) -> None:
    """Roles by their full names, where raybench's Python package is nowhere but in the collection."""
    collections = installed_collection(tmp_path)
    foreign, hidden = tmp_path / "foreign", tmp_path / "hidden"
    foreign.mkdir()
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(HIDE.format(repository=str(REPOSITORY)))
    (foreign / "site.yml").write_text(FOREIGN)
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {"all": {"hosts": {"n1": {}, "n2": {"preflight_kernel": "0.0.1"}}, "vars": local}}
    (foreign / "hosts.yml").write_text(yaml.safe_dump(hosts))
    settings = ["-e", "preflight_only=host-kernel", "-e", "fabric_tool=tcp", "-e", "fabric_seconds=1", "--check"]
    search = {"ANSIBLE_COLLECTIONS_PATH": str(collections), "PYTHONPATH": str(hidden), "PWD": str(foreign)}
    done = run([BIN / "ansible-playbook", "site.yml", "-i", "hosts.yml", *settings], foreign, **search)
    said = done.stdout + done.stderr
    assert "host-kernel on n2" in said, said
    assert "fatal: [n2]: FAILED! " in said
    assert "fatal: [n1]" not in said  # n2's fault
    assert "after the roles on n1" in said
    assert "fabric: " in said
    assert done.returncode == 0, said


def test_the_wheel_carries_playbooks_and_inventory(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling is not installed: pip install hatchling")
    build = "from hatchling.build import build_wheel; import sys; print(build_wheel(sys.argv[1]))"
    done = run([sys.executable, "-c", build, tmp_path], REPOSITORY)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
        wheel.extractall(tmp_path / "site")
    below = "raybench/_data/playbooks"
    assert {
        f"{below}/preflight.yml",
        f"{below}/library/raybench_probe.py",
        f"{below}/roles/preflight/tasks/main.yml",
    } <= names
    assert "raybench/_data/inventory/localhost.yml" in names
    require_ansible()
    command = [
        sys.executable,
        "-m",
        "raybench",
        "preflight",
        "--only",
        "host-memlock",
        "--output-dir",
        tmp_path / "runs",
    ]
    preflight = run([*command], tmp_path, PYTHONPATH=str(tmp_path / "site"))
    assert preflight.returncode == 0, preflight.stderr
    assert "preflight.html" in preflight.stdout


def test_settings_are_the_same_in_the_root_and_beside_the_playbooks() -> None:
    settings = []
    for folder in (REPOSITORY, REPOSITORY / "playbooks"):
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(folder / "ansible.cfg")
        settings.append({section: dict(parser[section]) for section in parser.sections()})
    for name in ("inventory", "roles_path", "library", "action_plugins", "module_utils"):
        root, beside = (one["defaults"].pop(name) for one in settings)
        assert (REPOSITORY / root).resolve() == (REPOSITORY / "playbooks" / beside).resolve()
    assert settings[0] == settings[1]
