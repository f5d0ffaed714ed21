"""The inventory: read by Ansible itself, so that every form it knows is understood, and checked before it is used.

A host name ends up in ssh's command line, in paths of the run's folder and in reports. Names that a shell, ssh or
Jinja could take for something else are refused here, before any playbook sees them.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raybench.errors import UsageError
from raybench.hosts.ansible_setup import ansible_program, ansible_settings

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_ADDRESS = re.compile(r"[A-Za-z0-9_:\[][A-Za-z0-9_.:%\[\]-]{0,252}")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]{0,127}\$?")
_PATH = re.compile(r"[A-Za-z0-9_./+~@:-]{1,4096}")
_TEMPLATE = re.compile(r"\{\{|\{%")
# Connection variables that Ansible puts into a command line, and what each may look like.
_CONNECTION_VARIABLES: Mapping[str, re.Pattern[str]] = {
    "ansible_host": _ADDRESS,
    "ansible_ssh_host": _ADDRESS,
    "ansible_port": re.compile(r"[0-9]{1,5}"),
    "ansible_ssh_port": re.compile(r"[0-9]{1,5}"),
    "ansible_user": _USER,
    "ansible_ssh_user": _USER,
    "ansible_become_user": _USER,
    "ansible_connection": re.compile(r"[a-z0-9_.]{1,100}"),
    "ansible_python_interpreter": _PATH,
    "ansible_ssh_private_key_file": re.compile(r"[^\0\n\r\"'`$;&|<>]{1,4096}"),
    "ansible_remote_tmp": re.compile(r"[A-Za-z0-9_./+~$@{}:-]{1,4096}"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host of the inventory. ``address`` is what ssh connects to; None where only a template in it says."""

    name: str
    address: str | None
    variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Hosts that were asked for, in the inventory's order, and the names of each group's, children's included."""

    sources: tuple[str, ...]
    hosts: tuple[Host, ...]
    groups: Mapping[str, tuple[str, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all hosts."""
        return tuple(host.name for host in self.hosts)


def read_inventory(
    sources: Sequence[str | Path],
    *,
    limit: str | None = None,
    group: str = "all",
    timeout_seconds: float = 60.0,
    environment: Mapping[str, str] | None = None,
) -> Inventory:
    """The hosts of an inventory that ``limit``, as Ansible's ``--limit``, and ``group`` leave.

    ``environment``: variables for Ansible beside its own.

    Raises UsageError when a source cannot be read in time, no host is left, or a name or a connection variable could be
    taken for something else than it says.
    """
    absolute = inventory_sources(sources)
    listing = _listing(absolute, limit, timeout_seconds, environment or {})
    inventory = _checked(parse_inventory(listing, absolute), limit)
    if group == "all":
        return inventory
    if group not in inventory.groups:
        known = ", ".join(sorted(inventory.groups)) or "none"
        raise UsageError(f"the inventory {_shown(absolute)} has no group {group!r}; its groups: {known}")
    members = set(inventory.groups[group])
    if not members:
        raise UsageError(f"group {group!r} of the inventory {_shown(absolute)} has no hosts{_limited(limit)}")
    hosts = tuple(host for host in inventory.hosts if host.name in members)
    return Inventory(sources=absolute, hosts=hosts, groups=inventory.groups)


def parse_inventory(listing: Mapping[str, Any], sources: tuple[str, ...] = ()) -> Inventory:
    """An inventory from what ``ansible-inventory --list`` prints as JSON; unchecked."""
    variables = listing.get("_meta", {}).get("hostvars", {})
    children = (child for name, entry in listing.items() if name != "_meta" for child in entry.get("children", ()))
    # a group without hosts stands only among the children of another
    named = dict.fromkeys([name for name in listing if name != "_meta"] + list(children))
    groups = {name: tuple(dict.fromkeys(_members(listing, name, ()))) for name in named}
    names = dict.fromkeys([*groups.get("all", ()), *variables])
    hosts = tuple(_host(name, variables.get(name, {})) for name in names)
    return Inventory(sources=sources, hosts=hosts, groups=groups)


def inventory_problems(inventory: Inventory) -> tuple[str, ...]:
    """What is wrong with names and connection variables, one line each. Empty where nothing is."""
    return tuple(problem for host in inventory.hosts for problem in _host_problems(host))


def _host_problems(host: Host) -> Iterator[str]:
    if not _NAME.fullmatch(host.name):
        yield f"host name {host.name!r}: letters, digits, dots, dashes and underscores only"
    for name, pattern in _CONNECTION_VARIABLES.items():
        value = host.variables.get(name)
        if value is None or (isinstance(value, str) and _TEMPLATE.search(value)):
            continue  # a template is Ansible's to evaluate, as everywhere in an inventory
        if isinstance(value, bool) or not isinstance(value, str | int) or not pattern.fullmatch(str(value)):
            yield f"{name} of host {host.name!r} is {value!r}, which is not one"


def _host(name: str, variables: Mapping[str, Any]) -> Host:
    address = variables.get("ansible_host", variables.get("ansible_ssh_host", name))
    templated = not isinstance(address, str) or _TEMPLATE.search(address)
    return Host(name=name, address=None if templated else str(address), variables=variables)


def _members(listing: Mapping[str, Any], group: str, above: tuple[str, ...]) -> Iterator[str]:
    if group in above:
        return
    entry = listing.get(group, {})
    yield from entry.get("hosts", ())
    for child in entry.get("children", ()):
        yield from _members(listing, child, (*above, group))


def _checked(inventory: Inventory, limit: str | None) -> Inventory:
    if not inventory.hosts:
        where = _shown(inventory.sources)
        raise UsageError(f"the inventory {where} has no hosts{_limited(limit)}; 'raybench init HOST ...' writes one")
    problems = inventory_problems(inventory)
    if problems:
        more = f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
        raise UsageError(f"the inventory {_shown(inventory.sources)} is refused: {'; '.join(problems[:3])}{more}")
    return inventory


def inventory_sources(sources: Sequence[str | Path]) -> tuple[str, ...]:
    """The sources as Ansible is given them. Raises UsageError for one that is not there, or is no file or folder."""
    return tuple(map(_absolute, sources))


def _listing(
    sources: tuple[str, ...], limit: str | None, timeout_seconds: float, environment: Mapping[str, str]
) -> dict[str, Any]:
    command = [ansible_program("ansible-inventory"), "--list", *(f"--inventory={source}" for source in sources)]
    if limit is not None:
        command.append(f"--limit={limit}")
    try:
        answer = subprocess.run(
            command,
            env={**os.environ, **ansible_settings(), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(f"the inventory {_shown(sources)} was not read within {timeout_seconds:.0f} s") from None
    except ValueError as error:  # a NUL in a path or limit
        raise UsageError(f"the inventory {_shown(sources)} cannot be read: {error}") from error
    return _decoded(answer, sources, limit)


def _decoded(answer: subprocess.CompletedProcess[str], sources: tuple[str, ...], limit: str | None) -> dict[str, Any]:
    try:
        listing = json.loads(answer.stdout) if answer.returncode == 0 else None
    except (ValueError, RecursionError):
        listing = None
    if not isinstance(listing, dict):
        reason = " ".join(error_of(answer.stderr or answer.stdout).split())
        limited = "" if limit is None else f" with --limit {limit!r}"
        raise UsageError(f"the inventory {_shown(sources)} cannot be used{limited}: {reason}")
    return listing


def error_of(text: str) -> str:
    """The error in what an Ansible program printed, without the warnings before it; at most 600 characters."""
    _, marker, rest = text.rpartition("[ERROR]: ")
    if not marker:
        _, _, rest = text.rpartition("ERROR! ")
    return rest.strip()[:600] or "no reason was given"


def _absolute(source: str | Path) -> str:
    """A path made absolute, since Ansible is called in another folder. ``gpu-1,gpu-2`` is a list of hosts."""
    text = str(source)
    if "," in text:
        return text
    if not Path(text).exists():
        raise UsageError(f"there is no inventory {text}; name one with -i, or write one: 'raybench init HOST ...'")
    if not (Path(text).is_file() or Path(text).is_dir()):  # Ansible reads it more than once
        raise UsageError(f"the inventory {text} is a pipe or a device; write it to a file, and name that with -i")
    return str(Path(text).absolute())


def _shown(sources: tuple[str, ...]) -> str:
    return " + ".join(sources)


def _limited(limit: str | None) -> str:
    return "" if limit is None else f" that --limit {limit!r} leaves"
