"""A first inventory, written from names of hosts, a host file or a scheduler's job, and read again as it is meant."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from raybench.errors import UsageError

if TYPE_CHECKING:
    from raybench.hosts.inventory_draft import DraftHost


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenInventory:
    """An inventory of ``hosts`` with a ``head``. ``source``: what named them, where nobody did."""

    path: Path
    hosts: tuple[str, ...]
    head: str
    source: str

    @property
    def workers(self) -> tuple[str, ...]:
        """All but the head."""
        return tuple(host for host in self.hosts if host != self.head)


def write_inventory(
    names: Sequence[str],
    path: Path,
    *,
    hostfile: Path | None = None,
    head: str | None = None,
    force: bool = False,
) -> WrittenInventory:
    """Write an inventory of hosts: ``names`` with ranges, users and addresses, and those of a host file of MPI.

    Without either they are the nodes of the scheduler's job that this process is in. No host is contacted, and a file
    that is there stays without ``force``. Raises UsageError where there are no hosts, or nothing can be written.
    """
    from raybench.hosts.inventory_draft import draft_text

    if path.exists() and not force:
        raise UsageError(f"{path} is there already; --force replaces it, --output names another file")
    hosts, source = _hosts(tuple(names), hostfile)
    chosen = head or hosts[0].name
    if chosen not in {host.name for host in hosts}:
        raise UsageError(f"--head {chosen} is none of the {len(hosts)} hosts; name it among them, too")
    _write(path, draft_text(hosts, chosen), hosts, chosen)
    return WrittenInventory(path=path, hosts=tuple(host.name for host in hosts), head=chosen, source=source)


def _hosts(words: tuple[str, ...], hostfile: Path | None) -> tuple[tuple["DraftHost", ...], str]:
    """The hosts, and what named them where it was not the command line. Raises UsageError where there are none."""
    from raybench.hosts.inventory_draft import hosts_of, names_of_job, read_hostfile

    source = ""
    if hostfile is not None:
        words = (*words, *read_hostfile(hostfile))
    if not words:
        words, source = names_of_job(os.environ)
    hosts = hosts_of(words)
    if not hosts:
        raise UsageError(
            "name the hosts: raybench init gpu-01 gpu-02, --hosts 'gpu-[01-10]' or --hostfile FILE (a job of Slurm, "
            "PBS, LSF or SGE, which would tell them, was not found)"
        )
    return hosts, source


def _write(output: Path, text: str, hosts: tuple["DraftHost", ...], head: str) -> None:
    """Write the file once Ansible has read it as it is meant. Raises UsageError where it cannot be written."""
    from raybench.hosts.inventory import read_inventory
    from raybench.whole_file import write_whole

    draft = output.with_name(f".{output.stem}-{os.getpid()}.yml")
    try:
        write_whole(draft, text)
        read = read_inventory([draft])
        if set(read.names) != {host.name for host in hosts} or read.groups.get("ray_head") != (head,):
            raise UsageError(f"Ansible reads other hosts than were named: {', '.join(read.names)}; please report this")
        write_whole(output, text)
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror or error}; choose another --output") from error
    finally:
        draft.unlink(missing_ok=True)
