"""Hosts that could not be reached, grouped by why: ``7 hosts: connection timed out: gpu-[03-09]``. Pure."""

import re
from collections.abc import Iterable, Iterator

from raybench.host_ranges import folded

ADVICE_MARK = "\n-> "  # in a message, before what to do about it
_AT_CONSOLE = " with what ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub says at its console"
_SUDOERS = "on {host}: visudo -f /etc/sudoers.d/raybench, with a line 'USER ALL=(ALL) NOPASSWD: ALL'"
# What ssh, sudo, Ansible and paramiko say, the reason in brief, and what to type. The first that is found counts.
_REASONS = (
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED|host key .*(changed|does not match)", "its host key has changed",
     "only if {host} was installed anew: ssh-keygen -R its address; ssh {host} and compare the key" + _AT_CONSOLE),
    (r"Host key verification failed|host key .* is not known", "its host key is not in known_hosts",
     "ssh {host} once and compare the key" + _AT_CONSOLE),
    (r"Missing sudo password|password is required|Incorrect sudo password|a terminal is required",
     "sudo asks for a password",
     _SUDOERS + "; or give ansible_become_password in a vault file of the inventory"),
    (r"privilege escalation prompt", "sudo does not answer", "ssh {host} sudo -n true; look at its DNS, LDAP or SSSD"),
    (r"not in the sudoers file|may not run sudo", "its user may not use sudo", _SUDOERS),
    (r"sudo: (command )?not found", "sudo is not installed there",
     "install sudo on {host}, or log in as root without ansible_become"),
    (r"interpreter '[^']*' was not found|python[0-9.]*: (command )?not found", "there is no Python at that path",
     "ssh {host} 'command -v python3'; ansible_python_interpreter in the inventory may name one, 3.8 or newer"),
    (r"No space left on device|Disk quota exceeded", "a file system is full there",
     "ssh {host} 'df -h / /tmp ~; df -i / /tmp ~', and free some space"),
    (r"Read-only file system", "a file system is read-only there",
     "on {host}: dmesg | tail for why; ansible_remote_tmp in the inventory may name a folder that can be written"),
    (r"Permission denied \(|Permission denied, please|Authentication failed|no key .* accepted|Too many authentication",
     "ssh login is refused",
     "ssh-copy-id {host}; ansible_user and ansible_ssh_private_key_file in the inventory say as whom and by which key"),
    (r"its sshd says nothing|SSH protocol banner", "its sshd says nothing",
     "on {host}: systemctl status sshd (ssh on Debian); cat /proc/pressure/*: the host may stand still"),
    (r"Connection timed out|Operation timed out|timed out|Timeout", "connection timed out",
     "check power, ansible_host in the inventory and firewalls on the way: ping {host}; nc -vz {host} 22"),
    (r"Connection refused", "connection refused: no sshd on that port",
     "on {host}: systemctl status sshd (ssh on Debian); ansible_port in the inventory where it listens elsewhere"),
    (r"No route to host|Network is unreachable", "no route to the host",
     "check power, cable and ansible_host in the inventory: ip route get its address; ping {host}"),
    (r"Could not resolve hostname|Name or service not known|Temporary failure in name resolution|nodename nor servname",
     "its name does not resolve", "getent hosts {host}; ansible_host in the inventory may give its address"),
    (r"kex_exchange_identification|Connection (reset|closed) by .* \[preauth\]|lost connection",
     "sshd closed the connection",
     "on {host}: journalctl -u ssh -u sshd -n 20; too many logins at once (MaxStartups), or hosts.deny"),
    (r"Connection reset|Connection closed|Connection to .* closed|Data could not be sent|Broken pipe",
     "the connection was closed before the answer was there",
     "on {host}: journalctl -u ssh -u sshd -n 20; dmesg | grep -i 'out of memory'"),
)  # fmt: skip


def brief_reason(message: str, host: str = "", address: str | None = None) -> str:
    """Why a host could not be reached, in words that are the same for all hosts with that reason.

    A message that is not known stays as it is, but for the host's own name and address in it, where these are no words.
    """
    message = message.partition(ADVICE_MARK)[0].strip().removeprefix("Task failed: ")
    for pattern, reason, _ in _REASONS:
        if re.search(pattern, message, re.IGNORECASE):
            return reason
    text = " ".join(message.split())
    for own in (name for name in (address, host) if name and re.search(r"[0-9.-]", name)):
        text = re.sub(rf"(?<![\w.-]){re.escape(own)}(?![\w-])", "it", text)
    return text[:200] or "no reason was given"


def advice_on(message: str, host: str = "HOST") -> str:
    """What to do where a host could not be reached: what the message says of it behind a mark, else by its reason.

    Empty where neither is known.
    """
    message, _, told = message.partition(ADVICE_MARK)
    if told:
        return " ".join(told.split())
    for pattern, _, advice in _REASONS:
        if re.search(pattern, message, re.IGNORECASE):
            return advice.format(host=host)
    return ""


def reason_lines(failures: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A line a reason, those of most hosts first, from (host, what was said), and one below it of what to type."""
    by_reason: dict[str, dict[str, str]] = {}
    for host, message in failures:
        by_reason.setdefault(brief_reason(message, host), {})[host] = message
    for reason, hosts in sorted(by_reason.items(), key=lambda entry: -len(entry[1])):
        yield f"{len(hosts)} host{'s' if len(hosts) > 1 else ''}: {reason}: {folded(hosts)}"
        first, message = next(iter(hosts.items()))
        advice = advice_on(message, first if len(hosts) == 1 else "HOST")
        if advice:
            yield f"  -> {advice}"
