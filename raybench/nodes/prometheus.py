r"""Node states as a file for the textfile collector of Prometheus' node exporter. Pure.

Format: text exposition 0.0.4, without times of samples, which the collector refuses. In label values a backslash, a
quote and the end of a line are escaped; what hosts wrote stands in no label.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from raybench.documents.preflight import PreflightReport
from raybench.verdicts import NODE_STATES

Sample = tuple[Mapping[str, str], float]
_HELP = {
    "raybench_preflight_finished_timestamp_seconds": "When the preflight was finished, seconds since 1970.",
    "raybench_preflight_hosts": "Hosts of the preflight.",
    "raybench_node_state": "1 for the state that the host's node is in, 0 for the others.",
    "raybench_node_state_since_timestamp_seconds": "Since when it is in this state, seconds since 1970.",
    "raybench_node_reachable": "Whether the host answered.",
    "raybench_node_reason": "1 for each check that speaks against the node, with what it means and what to do.",
    "raybench_node_checks": "Checks of the host by verdict.",
}
_VERDICTS = ("pass", "warn", "fail", "skipped", "unknown", "error")


def exposition(report: PreflightReport) -> str:
    """The whole file of a report."""
    families: dict[str, Sequence[Sample]] = {
        "raybench_preflight_finished_timestamp_seconds": _at({}, report.finished_at),
        "raybench_preflight_hosts": [({}, len(report.hosts))],
        "raybench_node_state": list(_states(report)),
        "raybench_node_state_since_timestamp_seconds": list(_since(report)),
        "raybench_node_reachable": [({"host": host.host}, int(host.reached)) for host in report.hosts],
        "raybench_node_reason": list(_reasons(report)),
        "raybench_node_checks": list(_checks(report)),
    }
    return "".join(line for name, samples in families.items() if samples for line in _family(name, samples))


def _family(name: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {name} {_HELP[name]}\n# TYPE {name} gauge\n"
    for labels, value in samples:
        written = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{name}{{{written}}} {value:.10g}\n" if written else f"{name} {value:.10g}\n"


def _escaped(text: str) -> str:
    shown = "".join(character if character.isprintable() or character == "\n" else " " for character in text)
    return shown.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _at(labels: Mapping[str, str], time: str | None) -> list[Sample]:
    try:
        return [(labels, datetime.fromisoformat(time).timestamp())] if time else []
    except ValueError:
        return []


def _states(report: PreflightReport) -> Iterator[Sample]:
    for host in report.hosts:
        for state in NODE_STATES if host.node is not None else ():
            yield {"host": host.host, "state": state}, int(host.node is not None and host.node.state == state)


def _since(report: PreflightReport) -> Iterator[Sample]:
    for host in report.hosts:
        if host.node is not None:
            yield from _at({"host": host.host, "state": host.node.state}, host.node.since)


def _reasons(report: PreflightReport) -> Iterator[Sample]:
    for host in report.hosts:
        reasons = host.node.reasons if host.node is not None else ()
        for labels in dict.fromkeys((one.check, one.verdict, one.effect, one.action) for one in reasons):
            yield dict(zip(("host", "check", "verdict", "effect", "action"), (host.host, *labels), strict=True)), 1


def _checks(report: PreflightReport) -> Iterator[Sample]:
    for host in report.hosts:
        verdicts = [one.verdict for one in host.checks]
        for verdict in _VERDICTS:
            yield {"host": host.host, "verdict": verdict}, sum(one == verdict for one in verdicts)
