"""A study's result (raybench.study-result/1) as tables and sentences, for every kind of report. Pure."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from raybench.reports.study_cells import (
    NONE,
    Json,
    gb_per_second,
    interval,
    memory,
    money,
    overhead,
    rate,
    seconds,
    share,
    text,
    times,
)
from raybench.reports.text import count_of, fixed, inert, percent
from raybench.reports.view import Cell, Grid
from raybench.reports.workloads import Section
from raybench.units import format_seconds

Columns = Sequence[tuple[str, Callable[[Json], Cell]]]
_PROOF_TONES = {"proved": "", "unproven": "warn", "refuted": "bad"}
_BAND_TONES = {"poor": "bad", "fair": "warn"}
_STATUS_TONES = {"complete": "", "partial": "warn", "failed": "bad", "missing": "bad"}


def study_sections(content: Json) -> tuple[Section, ...]:
    """The tables of a study, the answer's first."""
    return tuple(_SECTIONS[content["kind"]](content))


def study_title(content: Json) -> str:
    """``study network network-2026...: 2 variants x 5 repeats of 'raybench train --model tiny'``."""
    plan = f"{count_of(len(content['variants']), 'variant')} x {count_of(content['repeats'], 'repeat')}"
    return inert(f"raybench study {content['study_id']}: {plan} of 'raybench {' '.join(content['workload'])}'")


def order_text(content: Json) -> str:
    """How the trials were ordered, and the first blocks of it."""
    blocks = "; ".join(", ".join(block) for block in content["order"][:2])
    more = "; ..." if len(content["order"]) > 2 else ""
    how = "order: random in each repeat, every second one the one before it backwards"
    return inert(f"{how} (seed {content['seed']}): {blocks}{more}")


def emulated_study_notice(content: Json) -> str | None:
    """The sentence that no reader of emulated figures may miss."""
    if not content["emulated"]:
        return None
    return "EMULATED: the nodes are processes of one machine. These figures say nothing about a network."


def trial_section(content: Json) -> Section:
    """Every trial in the order of doing."""
    columns: Columns = (
        ("trial", lambda trial: text(trial["folder"])),
        ("repeat", lambda trial: text(trial["block"] + 1)),
        ("status", lambda trial: text(trial["status"], _STATUS_TONES.get(trial["status"], "bad"))),
        ("time", lambda trial: seconds(trial["measured"][0]["seconds"]) if trial["measured"] else NONE),
        ("ranks", lambda trial: text(trial["world_size"] or None)),
        ("network", lambda trial: text(f"{trial['network']}" if trial["backend"] == "nccl" else "TCP (gloo)")
         if trial["measured"] else NONE),
        ("whole run", lambda trial: seconds(trial["seconds"])),
        ("reason", lambda trial: text(trial["reason"])),
    )  # fmt: skip
    return Section(title="Trials, in the order of doing", grid=_grid(columns, content["trials"]))


def _grid(columns: Columns, rows: Sequence[Json]) -> Grid:
    return Grid(
        headings=tuple(heading for heading, _ in columns),
        rows=tuple(tuple(cell(row) for _, cell in columns) for row in rows),
    )


def _present(columns: Columns, rows: Sequence[Json], keep: int = 1) -> Grid:
    """The columns that have anything in them, the first ones always."""
    grid = _grid(columns, rows)
    used = [index for index in range(len(columns)) if index < keep or any(row[index] != NONE for row in grid.rows)]
    return Grid(
        headings=tuple(grid.headings[index] for index in used),
        rows=tuple(tuple(row[index] for index in used) for row in grid.rows),
    )


def _network_sections(content: Json) -> Iterator[Section]:
    answer = content["answer"]
    proofs = answer["proofs"]
    columns: Columns = (
        ("network", lambda row: text(row["network"], "strong")),
        ("used", lambda row: _proof(proofs[row["network"]])),
        ("workload", lambda row: text(row["label"])),
        ("repeats", lambda row: text(row["blocks"])),
        ("time", lambda row: seconds(row["seconds"], "strong")),
        ("samples/s", lambda row: rate(row["samples_per_s"])),
        ("tokens/s", lambda row: rate(row["tokens_per_s"])),
        ("busbw (GB/s)", lambda row: gb_per_second(row["busbw_gb_per_s"])),
        ("gradient sync", lambda row: seconds(row["exposed_seconds"])),
        ("overhead", lambda row: overhead(row["overhead"])),
    )
    seen = tuple(f"{name}: {proof['verdict']}, {proof['seen']} ({proof['basis']})" for name, proof in proofs.items())
    yield Section(title="Networks", grid=_present(columns, answer["networks"], 3), notes=tuple(map(inert, seen)))
    if answer["speedups"]:
        yield _speedup_section(answer)


def _proof(proof: Json) -> Cell:
    return text(proof["verdict"], _PROOF_TONES[proof["verdict"]])


def _speedup_section(answer: Json) -> Section:
    columns: Columns = (
        ("network", lambda row: text(row["network"], "strong")),
        ("workload", lambda row: text(row["label"])),
        ("speedup", lambda row: times(row["ratio"])),
        ("95 % interval", lambda row: interval(row["ratio"])),
        ("of gradient sync", lambda row: times(row["exposed_ratio"])),
        ("at most", lambda row: NONE if row["ceiling"] is None else Cell(text=f"{row['ceiling']:.2f}x")),
        ("against itself", lambda row: Cell(text=f"{row['self_ratio']:.2f}x")),
    )
    low, high = answer["expected"]
    notes = [f"{row['network']}, {row['label']}: {row['verdict']}" for row in answer["speedups"]]
    notes.append(
        f"worth it: more than {answer['worth_it_above']:g}x; usual for RDMA over TCP: {low:g}x to {high:g}x. 'at "
        "most': what a network that takes no time would give. 'against itself': how far one network's repeats differ"
    )
    title = f"Speedup over {inert(answer['baseline'])}"
    return Section(title=title, grid=_present(columns, answer["speedups"], 3), notes=tuple(map(inert, notes)))


def _scaling_sections(content: Json) -> Iterator[Section]:
    for mode in content["answer"]["modes"]:
        if mode["rows"]:
            yield _scaling_section(mode)
            if any(row["cost"] for row in mode["rows"]):
                yield _cost_section(mode, content["answer"]["price"])
            if mode["projections"]:
                yield _projection_section(mode)


def _scaling_section(mode: Json) -> Section:
    columns: Columns = (
        ("nodes", lambda row: text(row["nodes"], "strong")),
        ("ranks", lambda row: text(row["world_size"])),
        ("batch a rank", lambda row: text(row["batch_size_per_rank"])),
        ("time/step", lambda row: seconds(row["step_seconds"], "strong")),
        ("samples/s", lambda row: rate(row["samples_per_s"])),
        ("tokens/s", lambda row: rate(row["tokens_per_s"])),
        ("speedup", lambda row: times(row["speedup"])),
        ("ideal", lambda row: Cell(text=f"{row['nodes'] / mode['base_nodes']:.2f}x")),
        ("efficiency", lambda row: share((row["efficiency"] or {}).get("value"))),
        ("95 % interval", lambda row: interval(row["efficiency"], unit=" %", scale=100)),
        ("scaling", lambda row: text(row["band"], _BAND_TONES.get(row["band"].partition(" ")[0].rstrip(","), ""))),
        ("overhead", lambda row: overhead(row["overhead"])),
        ("loss", lambda row: NONE if row["loss"] is None else Cell(text=f"{row['loss']:.4f}")),
    )
    kept = {"strong": "the global batch is the same", "weak": "the batch of a rank is the same"}[mode["mode"]]
    title = f"{mode['mode'].capitalize()} scaling: {kept}"
    return Section(title=title, grid=_present(columns, mode["rows"], 4), notes=tuple(_scaling_notes(mode)))


def _scaling_notes(mode: Json) -> Iterator[str]:
    for row in mode["rows"]:
        for cause in row["causes"]:
            yield inert(f"{count_of(row['nodes'], 'node')}, likely: {cause}")
    if mode["amdahl_serial_share"] is not None:
        serial = mode["amdahl_serial_share"]
        limit = f"at most {1 / serial:.1f}x on any number of nodes" if serial > 1e-6 else "no limit seen"
        yield f"Amdahl: {percent(serial)} of the work of one node is serial, {limit}"
    if mode["fit"]:
        yield _fit_text(mode)


def _fit_text(mode: Json) -> str:
    fit = mode["fit"]
    work = "work/n" if mode["mode"] == "strong" else "work"
    knee = mode["knee_nodes"]
    where = f"from {count_of(knee, 'node')} on" if knee else "nowhere up to 100000 nodes"
    return (
        f"alpha-beta fit: t(n) = {work} + latency log2(n) + transfer 2(n-1)/n with work {format_seconds(fit['work'])}, "
        f"latency {format_seconds(fit['latency'])}, transfer {format_seconds(fit['transfer'])}; off by at most "
        f"{percent(fit['worst_relative_error'])} where measured. Knee (half the ideal throughput): {where}"
    )


def _cost_section(mode: Json, price: Json) -> Section:
    currency = inert(price["currency"])
    columns: Columns = (
        ("nodes", lambda row: text(row["nodes"], "strong")),
        ("samples/s", lambda row: rate(row["samples_per_s"])),
        ("tokens/s", lambda row: rate(row["tokens_per_s"])),
        ("efficiency", lambda row: share((row["efficiency"] or {}).get("value"))),
        ("time for 10K samples", lambda row: seconds(row["cost"]["hours_of_10000_samples"] * 3600)),
        ("cost of them", lambda row: money(row["cost"]["of_10000_samples"], currency)),
        ("cost per 1K samples", lambda row: money(row["cost"]["per_1k_samples"], currency)),
        ("per million tokens", lambda row: money(row["cost"]["per_million_tokens"], currency)),
        ("per hour", lambda row: money(row["cost"]["per_hour"], currency)),
    )
    note = f"a node costs {price['per_node_hour']:g} {price['currency']} an hour ({price['source']})"
    rows = [row for row in mode["rows"] if row["cost"]]
    return Section(title=f"Cost, {mode['mode']} scaling", grid=_present(columns, rows, 2), notes=(inert(note),))


def _projection_section(mode: Json) -> Section:
    columns: Columns = (
        ("nodes", lambda one: text(one["nodes"], "strong")),
        ("time/step", lambda one: seconds(one["step_seconds"])),
        ("90 % of fits", lambda one: Cell(
            text=f"{format_seconds(one['low_seconds'])} to {format_seconds(one['high_seconds'])}")),
        ("speedup", lambda one: Cell(text=f"{fixed(one['speedup'])}x")),
        ("ideal", lambda one: Cell(text=f"{one['nodes'] / mode['base_nodes']:g}x")),
        ("efficiency", lambda one: share(one["efficiency"])),
        ("", lambda _: Cell(text="PROJECTION", tone="warn")),
    )  # fmt: skip
    ahead = [one for one in mode["projections"] if one["is_projection"]]
    notes = tuple(dict.fromkeys(inert(one["caveat"]) for one in ahead))
    return Section(title=f"PROJECTION, {mode['mode']} scaling: not measured", grid=_grid(columns, ahead), notes=notes)


def _training_columns(ratios: Json) -> Columns:
    return (
        ("configuration", lambda row: text(row["variant"], "strong")),
        ("workload", lambda row: text(row["label"])),
        ("ranks", lambda row: text(row["world_size"] or None)),
        ("batch a rank", lambda row: text(row["batch_size_per_rank"])),
        ("time/step", lambda row: seconds(row["step_seconds"])),
        ("between repeats", lambda row: share(_spread(row))),
        ("samples/s", lambda row: rate(row["samples_per_s"], "strong")),
        ("tokens/s", lambda row: rate(row["tokens_per_s"])),
        ("of the fastest", lambda row: times(ratios.get(row["variant"]))),
        ("95 % interval", lambda row: interval(ratios.get(row["variant"]))),
        ("peak memory", lambda row: memory(row["memory_bytes"])),
        ("overhead", lambda row: overhead(row["overhead"])),
        ("loss", lambda row: NONE if row["loss"] is None else Cell(text=f"{row['loss']:.4f}")),
        ("not measured", lambda row: text(row["failed"], "bad")),
    )


def _spread(row: Json) -> float | None:
    known = row["step_seconds"] and row["step_seconds_stddev"] is not None and row["blocks"] > 1
    return row["step_seconds_stddev"] / row["step_seconds"] if known else None


def _strategy_sections(content: Json) -> Iterator[Section]:
    answer = content["answer"]
    columns = _training_columns(answer["throughput_over_fastest"])
    doubt = "" if answer["certain"] else "likely (the intervals do not decide; raise --repeats) "
    advice = f"{doubt}use {answer['recommended']}: {answer['why']}" if answer["recommended"] else answer["why"]
    yield Section(title="Strategies", grid=_present(columns, answer["rows"]), notes=(inert(advice),))


def _sweep_sections(content: Json) -> Iterator[Section]:
    answer = content["answer"]
    title = {"batch-size": "Batch sizes", "model-size": "Models"}[content["kind"]]
    notes = [f"most samples a second: {answer['fastest']}"] if answer["fastest"] else []
    yield Section(title=title, grid=_present(_training_columns({}), answer["rows"]), notes=tuple(map(inert, notes)))


_SECTIONS: dict[str, Callable[[Any], Iterator[Section]]] = {
    "network": _network_sections,
    "scaling": _scaling_sections,
    "strategy": _strategy_sections,
    "batch-size": _sweep_sections,
    "model-size": _sweep_sections,
}
