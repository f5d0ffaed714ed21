"""Hosts that are watched now, as lines of a terminal. Pure."""

from collections.abc import Iterator

from raybench.documents.live_hosts import LiveHost, LiveHosts
from raybench.reports.text import counted, fixed, printable
from raybench.units import format_seconds

_MOST_FIGURES = 16
_MOST_WARNINGS = 5  # of a host


def top_hosts_lines(hosts: LiveHosts) -> list[str]:
    """One screen: hosts that are lost first, then those with warnings."""
    return [printable(line) for line in _lines(hosts)]


def is_read(host: LiveHost) -> bool:
    """Whether anything is known of it now."""
    return host.state == "watched" and bool(host.figures)


def _lines(hosts: LiveHosts) -> Iterator[str]:
    lost = sum(one.state == "lost" for one in hosts.hosts)
    told = f", {lost} LOST" if lost else ""
    yield f"{counted(len(hosts.hosts), 'host')}{told}, after {format_seconds(hosts.elapsed_seconds)}"
    for one in sorted(hosts.hosts, key=lambda one: (one.state != "lost", not one.warnings)):
        yield f"{one.name}: {_standing(one)}"
        for warning in one.warnings[-_MOST_WARNINGS:]:
            yield f"  {warning.at_seconds:7.1f} s  {warning.text}"


def _standing(host: LiveHost) -> str:
    if host.state == "lost":
        return f"NOT WATCHED: {host.reason}"
    if host.silent_seconds is not None:
        return f"NO READINGS for {format_seconds(host.silent_seconds)}"
    figures = [f"{name} {fixed(value)}" for name, value in list(host.figures.items())[:_MOST_FIGURES]]
    return "; ".join(figures) if figures else f"{host.state}, no readings yet"
