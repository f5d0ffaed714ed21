"""Hosts that could not be reached, grouped by why: ``7 hosts: connection timed out: gpu-[03-09]``. Pure."""

import re
from collections.abc import Iterable, Iterator

from raybench.host_ranges import folded

# What ssh, Ansible and paramiko say, and the reason in brief. The first that is found counts.
_REASONS = (
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED|host key .*(changed|does not match)", "its host key has changed"),
    (r"Host key verification failed|host key .* is not known", "its host key is not in known_hosts"),
    (r"Permission denied|Authentication failed|no key .* accepted|Too many authentication", "ssh login is refused"),
    (r"Connection timed out|Operation timed out|timed out|Timeout", "connection timed out"),
    (r"Connection refused", "connection refused: no sshd on that port"),
    (r"No route to host|Network is unreachable", "no route to the host"),
    (r"Could not resolve hostname|Name or service not known|Temporary failure in name resolution|nodename nor servname",
     "its name does not resolve"),
    (r"Connection reset|Connection closed|kex_exchange_identification|lost connection", "sshd closed the connection"),
)  # fmt: skip


def brief_reason(message: str, host: str = "", address: str | None = None) -> str:
    """Why a host could not be reached, in words that are the same for all hosts with that reason.

    A message that is not known stays as it is, but for the host's own name and address in it, where these are no words.
    """
    for pattern, reason in _REASONS:
        if re.search(pattern, message, re.IGNORECASE):
            return reason
    text = " ".join(message.split())
    for own in (name for name in (address, host) if name and re.search(r"[0-9.-]", name)):
        text = re.sub(rf"(?<![\w.-]){re.escape(own)}(?![\w-])", "it", text)
    return text[:200] or "no reason was given"


def reason_lines(failures: Iterable[tuple[str, str]]) -> Iterator[str]:
    """One line a reason, those of most hosts first, from (host, what was said)."""
    by_reason: dict[str, list[str]] = {}
    for host, message in failures:
        by_reason.setdefault(brief_reason(message, host), []).append(host)
    for reason, hosts in sorted(by_reason.items(), key=lambda entry: -len(entry[1])):
        yield f"{len(hosts)} host{'s' if len(hosts) > 1 else ''}: {reason}: {folded(hosts)}"
