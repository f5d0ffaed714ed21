"""What the agents had sampled when a run broke, as text for ``logs/activity.txt``: GPUs, ports and the host. Pure."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from diagnostics.agent.series import Series, split_name
from raybench.documents.run.node_samples import FILE, NodeSamples, SampledNode, known_series

MOST_MACHINES = 16
MOST_DEVICES = 40  # of one machine
_GROUPS = ("gpu", "port", "nic", "host", "pressure")
_STALE_READINGS = 5  # a series that was missing in so many readings before the last one has no last value


class _Step(NamedTuple):
    """The last value of a series, how much more it is than the one before, and the seconds between the two."""

    value: float
    increase: float | None
    seconds: float


def last_samples_text(samples: NodeSamples, at_seconds: float, first: Collection[str] = ()) -> str:
    """The last readings up to ``at_seconds`` since the run's start; machines of the nodes ``first`` come first.

    Empty where none was made by then.
    """
    ordered = sorted(samples.nodes, key=lambda node: not {node.name, *node.nodes} & set(first))
    lines = [line for node in ordered[:MOST_MACHINES] for line in _machine_lines(node, at_seconds)]
    if len(ordered) > MOST_MACHINES:
        lines.append(f"samples of {len(ordered) - MOST_MACHINES} more machines are in {FILE}")
    return "".join(f"{line}\n" for line in lines)


def _machine_lines(node: SampledNode, at_seconds: float) -> list[str]:
    rows = sum(seconds <= at_seconds for seconds in node.seconds)
    if not rows:
        return []
    ago = at_seconds - node.seconds[rows - 1]
    devices = _by_device(node, rows)
    lines = [f"  {' '.join(name)}: {', '.join(_texts(found))}" for name, found in list(devices.items())[:MOST_DEVICES]]
    more = len(devices) - MOST_DEVICES
    lines += [f"  {more} more devices are in {FILE}"] if more > 0 else []
    return (
        [f"last samples of {node.name}, {ago:.1f} s before the run broke{_clock_offset(node)}:", *lines, ""]
        if lines
        else []
    )


def _clock_offset(node: SampledNode) -> str:
    """How far off the time may be, where that is worth a word."""
    bound = node.clock.bound_seconds
    clock = ", by a clock of unknown offset" if bound is None else f", to {bound:.1f} s" if bound >= 0.05 else ""
    return clock + (f", {node.merged} readings merged" if node.merged > 1 else "")


def _by_device(node: SampledNode, rows: int) -> Mapping[tuple[str, str], list[tuple[Series, _Step]]]:
    found: dict[tuple[str, str], list[tuple[Series, _Step]]] = defaultdict(list)
    for name in (name for group in _GROUPS for name in node.names(group)):
        known, step = known_series(name), _last_step(node, name, rows)
        if known is not None and step is not None:
            parts = split_name(name)
            found[parts.group, parts.device].append((known, step))
    return found


def _last_step(node: SampledNode, name: str, rows: int) -> _Step | None:
    values = node.values(name)[:rows]
    known = [row for row, value in enumerate(values) if value is not None][-2:]
    if not known or known[-1] < rows - _STALE_READINGS:
        return None
    last = values[known[-1]]
    before = values[known[0]] if len(known) > 1 else None
    assert last is not None
    return _Step(
        value=last,
        increase=None if before is None or last < before else last - before,
        seconds=node.seconds[known[-1]] - node.seconds[known[0]],
    )


def _texts(found: Iterable[tuple[Series, _Step]]) -> list[str]:
    """Levels as they are, counters as what they grew by; those of errors that did not grow in one word."""
    texts, still = [], 0
    for series, step in found:
        if not series.is_counter:
            texts.append(f"{series.title} {_level(series, step.value)}")
        elif step.increase is None or step.seconds <= 0:
            texts.append(f"{series.title} unknown")  # one reading, or begun again in between
        elif series.unit != "count":
            texts.append(f"{series.title} {_rate(series, step.increase / step.seconds)}")
        elif step.increase:
            texts.append(f"{series.title} +{step.increase:.0f} in {step.seconds:.1f} s")
        else:
            still += 1
    return [*texts, f"{still} counter{'s' * (still > 1)} that did not grow"] if still else texts


def _level(series: Series, value: float) -> str:
    match series.unit:
        case "flag":
            return "yes" if value else "no"
        case "bytes":
            return f"{value / 2**30:.3g} GiB"
        case "count":
            return f"{value:g}"
        case unit:
            return f"{value:g} {_SYMBOLS.get(unit, unit)}"


def _rate(series: Series, per_second: float) -> str:
    if series.unit == "bytes":
        return f"{per_second / 1e9:.3g} GB/s"
    return f"{per_second:.2f} s per second"


_SYMBOLS = {
    "percent": "%",
    "watts": "W",
    "celsius": "°C",
    "megahertz": "MHz",
    "gbit/s": "Gbit/s",
    "microseconds": "us",
}
