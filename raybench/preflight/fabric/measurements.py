"""From what the agents returned to figures: one measurement for each direction of a pair and rail. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raybench.preflight.fabric.counters import Growth, grown
from raybench.preflight.fabric.errors import NoFigureError
from raybench.preflight.fabric.iperf import parse_iperf, parse_own_stream
from raybench.preflight.fabric.perftest import last_words, parse_bandwidth, parse_latency

_NOT_FETCHED = "what the host measured could not be fetched"
# What a failed test says, and what to do about it. The first that matches counts.
_ADVICE: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), advice)
    for pattern, advice in (
        (
            r"does not answer|couldn't connect|connection refused|no route|timed out",
            "see whether the host is up and whether a firewall lets the test's ports through (fabric_first_port)",
        ),
        (
            r"not measured: ",
            "the ends connect, but no data arrives: check MTU and PFC on the path, or raise --seconds (fabric_seconds)",
        ),
        (
            r"completion with error|failed status 12|transport retry",
            "packets get lost on the path: cable, switch port, routing, or flow control (PFC) of RoCE",
        ),
        (
            r"modify qp|unable to connect the hca|failed to connect",
            "the ends cannot address each other: compare GID index, RoCE version, VLAN, MTU and partition key of both",
        ),
        (
            r"allocate mr|create mr|memory lock|cannot allocate|register",
            "memory could not be registered: raise memlock; for GPU memory load nvidia-peermem or use DMA-BUF",
        ),
        (
            r"unable to find|did not detect devices|no ib devices|device not found",
            "the tool sees no such device: load its driver (ib_uverbs, mlx5_ib), look at ibv_devices",
        ),
        (
            r"state is down|set the link layer",
            "the port is down: raybench preflight says why (cable, switch port, or on InfiniBand no subnet manager)",
        ),
        (r"did not end within", "it hangs: look at dmesg of both hosts for the NIC and its driver"),
        (r"no port from", "free ports, or give others: fabric_first_port, fabric_last_port"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One test. ``value`` is Gb/s, or microseconds for latency; None with the ``problem`` where it gave none."""

    round: int
    rail: str
    source: str
    destination: str
    value: float | None
    problem: str | None = None
    notes: tuple[str, ...] = ()
    source_growth: tuple[Growth, ...] = ()
    destination_growth: tuple[Growth, ...] = ()


def measurements(results: Mapping[str, Sequence[Mapping[str, Any]]], tool: str) -> tuple[Measurement, ...]:
    """One measurement a test, in the order of rounds. ``results[host]`` are the entries that its agent returned.

    A test of which only one side came back is one that could not be run.
    """
    sides: dict[tuple[int, str, str, str], dict[str, Mapping[str, Any]]] = {}
    for host, entries in results.items():
        for entry in entries:
            here, there = str(host), str(entry["peer"])
            ends = (here, there) if entry["role"] == "client" else (there, here)
            sides.setdefault((int(entry["round"]), str(entry["key"]), *ends), {})[str(entry["role"])] = entry
    return tuple(_measurement(key, found, tool) for key, found in sorted(sides.items()))


def advice_for(problem: str) -> str:
    """What to do about a test that could not be run."""
    found = (advice for pattern, advice in _ADVICE if pattern.search(problem))
    return next(found, "run the tool by hand between the two hosts; its message is above")


def _measurement(key: tuple[int, str, str, str], sides: Mapping[str, Mapping[str, Any]], tool: str) -> Measurement:
    number, rail, source, destination = key
    client, server = sides.get("client"), sides.get("server")
    value: float | None = None
    notes: tuple[str, ...] = ()
    problem = _problem(client, server)
    if client is not None and problem is None:
        try:
            value, notes = figure(str(client.get("output") or ""), tool)
        except NoFigureError as error:
            problem = str(error)
    return Measurement(
        round=number,
        rail=rail,
        source=source,
        destination=destination,
        value=value,
        problem=problem,
        notes=notes,
        source_growth=_growth(client),
        destination_growth=_growth(server),
    )


def figure(output: str, tool: str) -> tuple[float, tuple[str, ...]]:
    """The figure of a client's output and notes on it: Gb/s, or microseconds. Raises NoFigureError."""
    if tool == "ib_write_bw":
        row = parse_bandwidth(output)[-1]
        return row.gbit_per_s, row.notes
    if tool == "ib_write_lat":
        latency = parse_latency(output)[-1]
        return latency.typical_us or latency.average_us, ()
    return (parse_iperf(output) if tool == "iperf3" else parse_own_stream(output)).gbit_per_s, ()


def _problem(client: Mapping[str, Any] | None, server: Mapping[str, Any] | None) -> str | None:
    """Why a test cannot count. The client's own word comes first, since its partner only sees that it went."""
    if client is None:
        return f"client: {(server or {}).get('problem') or _NOT_FETCHED}"
    texts = list(_said("client", client)) + (list(_said("server", server)) if server is not None else [])
    if not texts or (not client.get("problem") and not client.get("code") and client.get("output")):
        return None  # a server that ended badly after its client had its figure takes nothing from it
    return "; ".join(texts)


def _said(side: str, entry: Mapping[str, Any]) -> Iterator[str]:
    if entry.get("problem"):
        yield f"{side}: {entry['problem']}"
    if entry.get("code"):
        yield f"{side}: status {entry['code']}, {last_words(str(entry.get('output') or ''))}"


def _growth(entry: Mapping[str, Any] | None) -> tuple[Growth, ...]:
    changed = (entry or {}).get("counters") or {}
    return grown({name: pair[0] for name, pair in changed.items()}, {name: pair[1] for name, pair in changed.items()})
