"""``python -m tests.measurements.expected_bandwidths``: expected values on healthy systems and injected faults.

Every system is judged by coefficients fitted without any of its tables, so the score is of systems that the model has
not seen. Faults are injected into the published bandwidths at their nominal size: a NIC lost (of eight or more x 7/8,
of four x 3/4), NVLS off (x 0.76 with NVLink 4, x 0.81 with NVLink 5, as published with and without), an HDR link in an
NDR slot (x 1/2: a ring is as fast as its slowest link). Beside it, the flat limits that other suites ship, on the same
tables. Limits and classes of raybench were chosen looking at this corpus; that part of the score is not of unseen
systems. That of ``never_fitted`` is: they were looked for afterwards, and are judged by the coefficients as shipped.
``--write`` fits all healthy systems and writes raybench/expectations/expected.csv.
"""

import argparse
import csv
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from raybench.expectations.expected import Coefficients, judge, shipped_coefficients
from raybench.expectations.expected_fit import HealthyTable, fit_coefficients
from raybench.expectations.regimes import FAMILIES, System
from raybench.hardware.gpus import GPUS, gpu_for
from tests.measurements.table import print_table, write_json

CORPUS = Path(__file__).parents[1] / "expectations" / "healthy"
SHIPPED = Path(__file__).parents[2] / "raybench" / "expectations" / "expected.csv"
MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault: whether it can happen to a table's system, and what is left of the bandwidth."""

    name: str
    applies: Callable[[HealthyTable], bool]
    left: Callable[[HealthyTable], float]


def has_network(table: HealthyTable) -> bool:
    return table.system.domains > 1


def uses_all_nics(table: HealthyTable) -> bool:
    return has_network(table) and table.operation != "send_recv" and table.system.nics != 1


def left_of_nics(table: HealthyTable) -> float:
    """Where one of a node's NICs is lost, or of more than eight those of a GPU."""
    return 1 - 1 / min(table.system.nics or 8, 8)


def uses_nvls(table: HealthyTable) -> bool:
    system = table.system
    generation = system.gpu.nvlink_generation or 0
    enough = min(system.ranks, system.nvlink_ranks) >= 8 and generation >= 4
    within = table.operation == "all_reduce" and system.domains == 1
    return within and enough and system.nvls is not False


FAULTS = (
    Fault(name="a NIC lost", applies=uses_all_nics, left=left_of_nics),
    Fault(
        name="NVLS off", applies=uses_nvls, left=lambda table: 0.76 if table.system.gpu.nvlink_generation == 4 else 0.81
    ),
    Fault(name="HDR in an NDR slot", applies=has_network, left=lambda _: 0.5),
)


def corpus(prefix: str = "") -> tuple[list[HealthyTable], dict[str, bool], dict[str, str]]:
    """All tables, whether each system counts as healthy, and the remark on it; ``unseen_``: those never fitted."""
    systems, clusters, healthy, remarks = {}, {}, {}, {}
    for row in _rows(f"{prefix}systems.csv"):
        systems[row["system"]], clusters[row["system"]] = _system(row), row.get("cluster", "")
        healthy[row["system"]] = row["healthy"] == "yes"
        remarks[row["system"]] = row["remark"]
    tables = []
    for line in _lines(f"{prefix}tables.csv"):
        name, operation, first, figures = line.split(",")
        points = tuple(
            (int(float(first) * MIB) * 2**index, float(figure))
            for index, figure in enumerate(figures.split())
            if figure != "-"
        )
        system, cluster = systems[name], clusters[name]
        tables.append(HealthyTable(name=name, operation=operation, system=system, points=points, cluster=cluster))
    return tables, healthy, remarks


def described(*, fitted: bool) -> tuple[list[HealthyTable], dict[str, bool], dict[str, str]]:
    """The sixth corpus: systems as they are described, of which some led to a rule and are ``fitted`` since.

    Those in doubt, and those of GPUs that the table does not have, are left out.
    """
    names = {gpu.name for gpu in GPUS}
    tables, healthy, remarks = [], {}, {}
    for one in json.loads((CORPUS / "unseen6.json").read_text(encoding="utf-8")):
        row = {key: "" if value is None else str(value) for key, value in one["system"].items()}
        if one.get("fitted", False) != fitted or one["healthy"] == "doubt" or row["gpu"] not in names:
            continue
        name = one["id"]
        healthy[name], remarks[name] = one["healthy"] == "yes", one.get("found", "")
        for operation, figures in one["tables"].items():
            points = tuple((int(float(mib) * MIB), float(busbw)) for mib, busbw in figures.items())
            tables.append(
                HealthyTable(name=name, operation=operation, system=_system(row), points=points, cluster=one["cluster"])
            )
    return tables, healthy, remarks


def fitted_corpus() -> tuple[list[HealthyTable], dict[str, bool], dict[str, str]]:
    """What the shipped coefficients are fitted to: the first corpus and the systems found after it."""
    first, second, third, sixth = corpus(), corpus("unseen_"), corpus("unseen3_"), described(fitted=True)
    return (
        first[0] + second[0] + third[0] + sixth[0],
        first[1] | second[1] | third[1] | sixth[1],
        first[2] | second[2] | third[2] | sixth[2],
    )


def never_fitted() -> tuple[list[HealthyTable], dict[str, bool], dict[str, str]]:
    """What no coefficient was ever fitted to, and no rule made for but that bridged cards have no switch."""
    first, second, sixth = corpus("unseen2_"), corpus("unseen4_"), described(fitted=False)
    return first[0] + second[0] + sixth[0], first[1] | second[1] | sixth[1], first[2] | second[2] | sixth[2]


def _lines(name: str) -> Iterable[str]:
    text = (CORPUS / name).read_text(encoding="utf-8")
    return (line for line in text.splitlines() if line and not line.startswith("#"))


def _rows(name: str) -> Iterable[dict[str, str]]:
    return csv.DictReader(_lines(name))


def _system(row: dict[str, str]) -> System:
    return System(
        gpu=gpu_for(row["gpu"]),
        ranks=int(row["ranks"]),
        nodes=int(row["nodes"]),
        nvlink_ranks=int(row["nvlink_ranks"]),
        nics=int(row["nics"]) if row["nics"] else None,
        nic_gbit=float(row["nic_gbit"]) if row["nic_gbit"] else None,
        family=next((family for family in FAMILIES if family == row["family"]), None),
        nvls=False if row["nvls"] == "no" else None,
    )


def without(tables: Sequence[HealthyTable], left_out: HealthyTable, healthy: dict[str, bool]) -> Coefficients:
    """Fitted to the healthy systems but this one and those of its cluster."""
    return fit_coefficients([one for one in tables if one.witness != left_out.witness and healthy[one.name]])


def scaled(table: HealthyTable, left: float) -> list[tuple[int, float]]:
    return [(size, busbw * left) for size, busbw in table.points]


# What other suites compare a run with, GB/s, for the shapes that they are meant for (peers.md 5, performance.md 1.2).
def azure(table: HealthyTable) -> float | None:
    limits = {"H100 SXM": 460.0, "H200": 431.0, "A100 SXM 80GB": 228.0, "MI300X": 314.0}
    return limits.get(table.system.gpu.name) if table.system.nodes == 1 and table.operation == "all_reduce" else None


def oracle(table: HealthyTable) -> float | None:
    limits = {"A100": 185.0, "H100": 440.0, "H200": 440.0, "B200": 440.0}
    return limits.get(table.system.gpu.name.split()[0]) if table.operation == "all_reduce" else None


def google(table: HealthyTable) -> float | None:
    over = table.system.nodes == 2 and table.operation == "all_gather"
    return {"tcpxo": 150.0, "rdma": 250.0}.get(table.system.family or "") if over else None


def nvsentinel(table: HealthyTable) -> float | None:
    return (100.0 if has_network(table) else 150.0) if table.operation == "all_reduce" else None


def amazon(table: HealthyTable) -> float | None:
    """At 128 MiB over nodes, as its sweep ends there."""
    over = table.operation == "all_reduce" and table.system.family == "efa"
    return {"A100": 300.0, "H100": 800.0, "B200": 900.0}.get(table.system.gpu.name.split()[0]) if over else None


def peak(table: HealthyTable) -> float:
    return max(busbw for _, busbw in table.points)


def at_128_mib(table: HealthyTable) -> float:
    return next((busbw for size, busbw in table.points if size == 128 * MIB), peak(table))


SUITES = {
    "Azure NHC": (azure, peak),
    "OCI": (oracle, peak),
    "GCP CHS": (google, peak),
    "NVSentinel": (nvsentinel, peak),
    "AWS healthcheck": (amazon, at_128_mib),
}


@dataclass(kw_only=True)
class Score:
    """Counted verdicts."""

    clean: int = 0
    false_alarms: int = 0
    faults: int = 0
    found: int = 0
    unknown: int = 0

    def line(self, name: str) -> list[str]:
        share = f"{self.found / self.faults:.0%}" if self.faults else "-"
        return [
            name,
            str(self.clean),
            str(self.false_alarms),
            str(self.faults),
            f"{self.found} ({share})",
            str(self.unknown),
        ]


def score(
    tables: Sequence[HealthyTable],
    healthy: dict[str, bool],
    only: str | None = None,
    known: Coefficients | None = None,
    judged: Sequence[HealthyTable] | None = None,
) -> tuple[Score, dict[str, Score], list[list[str]]]:
    """Leave-one-system-out: the total, by fault, and a row a table; of one operation only, where given.

    With ``known`` coefficients nothing is fitted. Only ``judged`` tables are, where they are given.
    """
    total, by_fault, rows = Score(), {fault.name: Score() for fault in FAULTS}, []
    for table in (table for table in judged or tables if healthy[table.name] and only in (None, table.operation)):
        coefficients = known or without(tables, table, healthy)
        judgement = judge(table.operation, table.points, table.system, coefficients)
        if judgement.ratio is None or judgement.limit is None:
            total.unknown += 1
            rows.append([table.name, table.operation, "-", "-", judgement.verdict, judgement.basis[:70]])
            continue
        total.clean += 1
        total.false_alarms += judgement.verdict == "slow"
        missed = []
        for fault in FAULTS:
            if fault.applies(table):
                found = (
                    judge(table.operation, scaled(table, fault.left(table)), table.system, coefficients).verdict
                    == "slow"
                )
                for one in (total, by_fault[fault.name]):
                    one.faults += 1
                    one.found += found
                missed += [] if found else [fault.name]
        rows.append(
            [
                table.name,
                table.operation,
                f"{judgement.ratio:.3f}",
                f"{judgement.limit:.2f}",
                judgement.verdict,
                ", ".join(missed),
            ]
        )
    return total, by_fault, rows


def unhealthy(
    tables: Sequence[HealthyTable],
    healthy: dict[str, bool],
    remarks: dict[str, str],
    coefficients_for: Callable[[HealthyTable], Coefficients],
) -> list[list[str]]:
    """A row for each table of a system that does not count as healthy."""
    rows = []
    for table in (table for table in tables if not healthy[table.name]):
        one = judge(table.operation, table.points, table.system, coefficients_for(table))
        ratio, limit = f"{one.ratio or 0:.3f}", f"{one.limit or 0:.2f}"
        rows.append([table.name, table.operation, ratio, limit, one.verdict, remarks[table.name]])
    return rows


def score_suite(tables: Sequence[HealthyTable], healthy: dict[str, bool], name: str) -> Score:
    """A flat limit on the tables that it is meant for."""
    limit_of, figure_of = SUITES[name]
    result = Score()
    for table in (table for table in tables if healthy[table.name]):
        limit = limit_of(table)
        if limit is None:
            result.unknown += 1
            continue
        result.clean += 1
        result.false_alarms += figure_of(table) < limit
        for fault in FAULTS:
            if fault.applies(table):
                result.faults += 1
                result.found += figure_of(table) * fault.left(table) < limit
    return result


def coefficient_rows(coefficients: Coefficients) -> list[list[str]]:
    """The lines of expected.csv."""
    rows = [
        [key, f"{one.share:.4f}", str(one.systems), f"{one.least:.4f}", f"{one.most:.4f}", "", ""]
        for key, one in sorted(coefficients.shares.items())
    ]
    return rows + [
        [key, "", "", "", "", f"{one.start_seconds * 1e6:.2f}", f"{one.stage_seconds * 1e6:.3f}"]
        for key, one in sorted(coefficients.timings.items())
    ]


def write_coefficients(path: Path, coefficients: Coefficients) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(
            "# Made by python -m tests.measurements.expected_bandwidths --write from tests/expectations/healthy: share "
            "of a link\n"
        )
        file.write("# by regime, microseconds without data and of a pipeline stage by class of system.\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["key", "share", "systems", "least", "most", "start_us", "stage_us"])
        writer.writerows(coefficient_rows(coefficients))


def main() -> int:
    """Print the scores. Returns 1 with any false alarm or less than 95 % of the faults in all_reduce found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help="fit everything and write expected.csv of raybench.expectations"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    tables, healthy, remarks = fitted_corpus()
    if options.write:
        write_coefficients(SHIPPED, fit_coefficients([table for table in tables if healthy[table.name]]))
        print(f"written: {SHIPPED.name}")
    total, by_fault, rows = score(tables, healthy)
    reductions, _, _ = score(tables, healthy, only="all_reduce")
    header = ["system (left out of the fit)", "operation", "ratio", "limit", "verdict", "not found when injected / why"]
    print_table("Published healthy systems", header, rows)
    suspects = unhealthy(tables, healthy, remarks, lambda table: without(tables, table, healthy))
    print_table("Published systems in doubt (not scored)", [*header[:5], "why in doubt"], suspects)
    unseen, unseen_healthy, unseen_remarks = never_fitted()
    blind, _, blind_rows = score(unseen, unseen_healthy, known=shipped_coefficients())
    print_table("Systems that were never fitted", header, blind_rows)
    sick = unhealthy(unseen, unseen_healthy, unseen_remarks, lambda _: shipped_coefficients())
    print_table("Published unhealthy systems, never fitted", [*header[:5], "what they say"], sick)
    lines = [
        total.line("raybench, all operations"),
        blind.line("raybench, systems that were never fitted"),
        reductions.line("raybench, all_reduce"),
        *(one.line(f"  {name}") for name, one in by_fault.items()),
    ]
    lines += [score_suite(tables, healthy, name).line(name) for name in SUITES]
    print_table("Scores", ["", "healthy tables", "false alarms", "faults", "found", "no opinion"], lines)
    write_json(options.json, "verdicts", {"tables": rows, "scores": lines})
    return int(total.false_alarms > 0 or reductions.found < 0.95 * reductions.faults)


if __name__ == "__main__":
    sys.exit(main())
