"""A study's result (raybench.study-result/1) as tables and sentences, for every kind of report. Pure."""

from collections.abc import Callable, Iterator
from typing import Any

from raybench.reports.study_cells import (
    ESTIMATOR,
    NONE,
    Columns,
    Json,
    gb_per_second,
    grid_of,
    interval,
    memory,
    money,
    overhead,
    present,
    rate,
    seconds,
    share,
    text,
    times,
)
from raybench.reports.study_scaling import scaling_sections
from raybench.reports.text import count_of, inert, percent
from raybench.reports.view import Cell
from raybench.reports.workloads import Section
from raybench.units import format_seconds

_PROOF_TONES = {"proved": "", "unproven": "warn", "refuted": "bad"}
_VERDICT_TONES = {"ok": "", "warning": "warn", "unknown": "warn", "incomplete": "warn", "critical": "bad"}
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
        ("verdict", lambda trial: text(trial.get("verdict"), _VERDICT_TONES.get(str(trial.get("verdict")), ""))),
        ("time", lambda trial: seconds(trial["measured"][0]["seconds"]) if trial["measured"] else NONE),
        ("ranks", lambda trial: text(trial["world_size"] or None)),
        ("network", lambda trial: text(f"{trial['network']}" if trial["backend"] == "nccl" else "TCP (gloo)")
         if trial["measured"] else NONE),
        ("whole run", lambda trial: seconds(trial["seconds"])),
        ("reason", lambda trial: text(trial["reason"] or _found(trial))),
    )  # fmt: skip
    return Section(title="Trials, in the order of doing", grid=grid_of(columns, content["trials"]))


def _found(trial: Json) -> str | None:
    """Why a complete trial's verdict is not ok."""
    return None if trial.get("verdict") in (None, "ok") else trial.get("verdict_reason")


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
        ("cost per 1K samples", _cost_cell(answer)),
    )
    seen = tuple(f"{name}: {proof['verdict']}, {proof['seen']} ({proof['basis']})" for name, proof in proofs.items())
    yield Section(title="Networks", grid=present(columns, answer["networks"], 3), notes=tuple(map(inert, seen)))
    if answer["speedups"]:
        yield _speedup_section(answer)
        yield _metric_section(content)


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
    notes.append(ESTIMATOR)
    title = f"Speedup over {inert(answer['baseline'])}"
    return Section(title=title, grid=present(columns, answer["speedups"], 3), notes=tuple(map(inert, notes)))


def _metric_section(content: Json) -> Section:
    """A row a metric, a column a network, and what each gains over the first."""
    answer = content["answer"]
    names = list(dict.fromkeys(row["network"] for row in answer["networks"]))
    rows = [row for label in _labels(answer) for row in _metrics(label, content)]
    columns: list[tuple[str, Callable[[Json], Cell]]] = [("metric", lambda row: text(row["metric"], "strong"))]
    for name in names:
        columns.append((name, lambda row, name=name: row["values"].get(name, NONE)))  # type: ignore[misc]
        if name != answer["baseline"]:
            columns.append((f"{name} speedup", lambda row, name=name: times(row["ratios"].get(name))))  # type: ignore[misc]
    low, high = answer["expected"]
    note = f"expected of RDMA over TCP: {low:g}x to {high:g}x"
    return Section(title="Metric by metric", grid=grid_of(columns, rows), notes=(note,))


def _labels(answer: Json) -> list[str]:
    return list(dict.fromkeys(row["label"] for row in answer["networks"]))


def _metrics(label: str, content: Json) -> Iterator[Json]:
    answer = content["answer"]
    samples = content["settings"].get("epoch_samples") or 10_000
    rows = {row["network"]: row for row in answer["networks"] if row["label"] == label}
    speedups = {row["network"]: row for row in answer["speedups"] if row["label"] == label}
    whole = {name: row["ratio"] for name, row in speedups.items()}
    waited = {name: row["exposed_ratio"] for name, row in speedups.items()}
    kinds: tuple[tuple[str, str, Callable[[Any], Cell], Json], ...] = (
        ("throughput (samples/s)", "samples_per_s", rate, whole),
        ("busbw (GB/s)", "busbw_gb_per_s", gb_per_second, whole),
        ("gradient sync", "exposed_seconds", seconds, waited),
        ("time", "seconds", seconds, whole),
        (f"time of {samples} samples", "samples_per_s", lambda value: seconds(samples / value), whole),
    )
    prefix = f"{label}: " if len(_labels(answer)) > 1 else ""
    for title, key, cell, ratios in kinds:
        known = {name: cell(row[key]) for name, row in rows.items() if row[key]}
        if known:
            yield {"metric": prefix + title, "values": known, "ratios": ratios}


def _cost_cell(answer: Json) -> Callable[[Json], Cell]:
    currency = inert((answer.get("price") or {}).get("currency", ""))
    return lambda row: money(row["cost"]["per_1k_samples"], currency) if row.get("cost") else NONE


def _training_columns(answer: Json, ratios: Json) -> Columns:
    return (
        ("configuration", lambda row: text(row["variant"], "strong")),
        ("workload", lambda row: text(row["label"])),
        ("parameters", _parameters),
        ("ranks", lambda row: text(row["world_size"] or None)),
        ("batch a rank", lambda row: text(row["batch_size_per_rank"])),
        ("time/step", lambda row: seconds(row["step_seconds"])),
        ("between repeats", lambda row: share(_spread(row))),
        ("samples/s", lambda row: rate(row["samples_per_s"], "strong")),
        ("tokens/s", lambda row: rate(row["tokens_per_s"])),
        ("of the fastest", lambda row: times(ratios.get(row["variant"]))),
        ("95 % interval", lambda row: interval(ratios.get(row["variant"]))),
        ("TFLOP/s a rank", _tflops),
        ("MFU", lambda row: share(row["mfu"])),
        ("peak memory", lambda row: memory(row["memory_bytes"], row.get("memory_kind"))),
        ("overhead", lambda row: overhead(row["overhead"])),
        ("cost per 1K samples", _cost_cell(answer)),
        ("loss", lambda row: NONE if row["loss"] is None else Cell(text=f"{row['loss']:.4f}")),
        ("not measured", lambda row: text(row["failed"], "bad")),
    )


def _parameters(row: Json) -> Cell:
    return NONE if not row["parameters"] else Cell(text=f"{row['parameters'] / 1e6:.4g} M")


def _tflops(row: Json) -> Cell:
    return NONE if row["tflop_per_s_per_rank"] is None else Cell(text=f"{row['tflop_per_s_per_rank']:.3g}")


def _spread(row: Json) -> float | None:
    known = row["step_seconds"] and row["step_seconds_stddev"] is not None and row["blocks"] > 1
    return row["step_seconds_stddev"] / row["step_seconds"] if known else None


def _strategy_sections(content: Json) -> Iterator[Section]:
    answer = content["answer"]
    columns = _training_columns(answer, answer["throughput_over_fastest"])
    doubt = "" if answer["certain"] else "likely (the intervals do not decide; raise --repeats) "
    advice = f"{doubt}use {answer['recommended']}: {answer['why']}" if answer["recommended"] else answer["why"]
    yield Section(title="Strategies", grid=present(columns, answer["rows"]), notes=(inert(advice), ESTIMATOR))


def _sweep_sections(content: Json) -> Iterator[Section]:
    answer = content["answer"]
    title = {"batch-size": "Batch sizes", "model-size": "Models"}[content["kind"]]
    notes = [f"use {answer['recommended']}: {answer['why']}" if answer["recommended"] else answer["why"]]
    notes += [f"most samples a second: {answer['fastest']}"] if answer["fastest"] else []
    notes += [_fit_text(content["kind"], answer["fit"])] if answer["fit"] else []
    columns = _training_columns(answer, {})
    yield Section(title=title, grid=present(columns, answer["rows"]), notes=tuple(map(inert, notes)))


def _fit_text(kind: str, fit: Json) -> str:
    off = f"off by at most {percent(fit['worst_relative_error'])} where measured"
    if kind == "model-size":
        return f"fit: time/step grows as parameters^{fit['exponent']:.2f}; {off}"
    half = f"; half of the throughput of an endless batch at {fit['half_batch']:.3g}" if fit["half_batch"] else ""
    return (
        f"fit: time/step = {format_seconds(fit['fixed_seconds'])} + {format_seconds(fit['each_seconds'])} a sample "
        f"of a rank{half}; {off}"
    )


_SECTIONS: dict[str, Callable[[Any], Iterator[Section]]] = {
    "network": _network_sections,
    "scaling": scaling_sections,
    "strategy": _strategy_sections,
    "batch-size": _sweep_sections,
    "model-size": _sweep_sections,
}
