"""Which host tries the ports of which others: enough to find a firewall, few enough for a thousand hosts. Pure."""

from collections.abc import Sequence


def hosts_to_try(hosts: Sequence[str], own: str) -> tuple[str, ...]:
    """The first host, which is Ray's head as a rule, the next one, and the one half the list away; never ``own``."""
    place = hosts.index(own)
    chosen = (hosts[0], hosts[(place + 1) % len(hosts)], hosts[(place + len(hosts) // 2) % len(hosts)])
    return tuple(name for name in dict.fromkeys(chosen) if name != own)


def callers_of(hosts: Sequence[str], own: str) -> tuple[str, ...]:
    """The hosts that choose ``own`` so: all others the first; else the one before, and the one half the list before."""
    if own == hosts[0]:
        return tuple(hosts[1:])
    place = hosts.index(own)
    chosen = (hosts[place - 1], hosts[place - len(hosts) // 2])
    return tuple(name for name in dict.fromkeys(chosen) if name != own)
