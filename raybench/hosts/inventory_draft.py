"""A first inventory from names of hosts: where the names come from, and the file that is written. Pure but for reading.

Names are typed (``gpu-[01-10]``, ``ubuntu@gpu-01``, ``gpu-01=10.0.0.1``), come from a host file of MPI, or from the
scheduler in whose job the command is called.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from raybench.errors import UsageError
from raybench.host_ranges import expanded

_HOST = re.compile(r"(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9_.-]*)@)?(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)"
                   r"(?:=(?P<address>[A-Za-z0-9_:.-]+))?")  # fmt: skip
# Variables in which a scheduler tells a job its nodes: a list, or the path of a file with a node a line.
_LISTS = ("SLURM_JOB_NODELIST", "SLURM_NODELIST")
_FILES = ("PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE", "COBALT_NODEFILE")


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftHost:
    """A host to be written: ``address`` and ``user`` only where they are not what ssh would take by itself."""

    name: str
    address: str | None = None
    user: str | None = None


def hosts_of(words: Iterable[str]) -> tuple[DraftHost, ...]:
    """Hosts of what was typed, each once. Raises UsageError for what is no host."""
    found: dict[str, DraftHost] = {}
    for word in (name for text in words for name in expanded(text)):
        match = _HOST.fullmatch(word)
        if match is None:
            raise UsageError(f"'{word}' is not a host; write gpu-01, gpu-[01-10], ubuntu@gpu-01 or gpu-01=10.0.0.1")
        host = DraftHost(name=match["name"], address=match["address"], user=match["user"])
        if found.setdefault(host.name, host) != host:
            raise UsageError(f"{host.name} is named twice, with different users or addresses; name it once")
    return tuple(found.values())


def names_of_hostfile(text: str) -> tuple[str, ...]:
    """Names of a host file of MPI or of a scheduler: the first word of each line, ``node1 slots=8`` or ``node1:8``."""
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return tuple(dict.fromkeys(re.sub(r":[0-9]+$", "", words[0]) for words in lines if words))


def read_hostfile(path: Path) -> tuple[str, ...]:
    """Names of a host file. Raises UsageError where it cannot be read, or names nobody."""
    try:
        names = names_of_hostfile(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the host file {path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not names:
        raise UsageError(f"the host file {path} names no host; it holds one a line, such as 'gpu-01 slots=8'")
    return names


def names_of_job(environment: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """Names that the scheduler gives this job, and the variable that says so; nothing outside of a job."""
    for variable in _LISTS:
        if environment.get(variable):
            return expanded(environment[variable]), variable
    for variable in _FILES:
        if environment.get(variable):
            return read_hostfile(Path(environment[variable])), variable
    return (), ""


def draft_text(hosts: Sequence[DraftHost], head: str) -> str:
    """The inventory: one host in ray_head, the others in ray_workers, and comments on what may be wanted."""
    first = _entries([host for host in hosts if host.name == head])
    others = _entries([host for host in hosts if host.name != head])
    workers = f"hosts:\n{others}" if others else "hosts: {}\n"
    return (
        f"{_TOP}    ray_head: # the node that Ray's head runs on; it measures, too\n      hosts:\n{first}"
        f"    ray_workers:\n      {workers}"
    )


def _entries(hosts: Sequence[DraftHost]) -> str:
    lines = []
    for host in hosts:
        lines.append(f"        {_quoted(host.name)}:")
        lines += [f"          ansible_host: {_quoted(host.address)}"] if host.address else []
        lines += [f"          ansible_user: {_quoted(host.user)}"] if host.user else []
    return "".join(f"{line}\n" for line in lines)


def _quoted(text: str) -> str:
    """As YAML reads it as text: 10 and no would be something else."""
    import yaml  # only where a file is written

    return text if yaml.safe_load(text) == text else f'"{text}"'


_TOP = """\
# The hosts that raybench works on, written by 'raybench init'. It is an inventory of Ansible: edit it as you like.
all:
  vars:
    # Who logs in by ssh; left out, it is you, or what ~/.ssh/config says.
    # ansible_user: ubuntu
    # ansible_ssh_private_key_file: ~/.ssh/id_ed25519
    # Become root by sudo: configure needs it, and preflight then sees more.
    # ansible_become: true
    # A Python on every host that has Ray, torch and raybench; left out, 'raybench cluster up' makes one there.
    # raybench_python: /opt/raybench/bin/python
    # What preflight is to expect of every host, such as:
    # preflight_gpu_count: 8
    # preflight_port_rate_gbits: 400
  children:
"""
