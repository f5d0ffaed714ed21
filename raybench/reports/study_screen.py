"""A study on one screen: the verdict, a row a variant, the remarks that matter. Reads raybench.study-result/1. Pure."""

from collections.abc import Iterator
from pathlib import Path

from raybench.reports.columns import Line
from raybench.reports.screen import Row, document_screen
from raybench.reports.study_cells import Json, gb_per_second, interval, memory, rate, ratio_share, seconds, times
from raybench.reports.study_view import emulated_study_notice, study_title
from raybench.reports.text import count_of, inert
from raybench.verdicts import Conclusion

_MOST_REMARKS = 3


def study_screen(content: Json, width: int, *, place: Path) -> Iterator[Line]:
    """The lines of a study."""
    conclusion = Conclusion(verdict=content["verdict"], reason=content["verdict_reason"])
    said = [*content["problems"], *content["remarks"]]
    told = [inert(text) for text in said if text not in conclusion.reason]
    more = [f"and {len(told) - _MOST_REMARKS} more remarks: --full"] if len(told) > _MOST_REMARKS else []
    notice = emulated_study_notice(content)
    notes = [*told[:_MOST_REMARKS], *more, *([notice] if notice else [])]
    yield from document_screen(conclusion, study_title(content), [*_rows(content)], notes, place, width)


def _rows(content: Json) -> Iterator[Row]:
    answer = content["answer"]
    if content["kind"] == "network":
        yield from _network_rows(answer)
    elif content["kind"] == "scaling":
        for mode in answer["modes"]:
            yield from _scaling_rows(mode)
    else:
        ratios = answer.get("throughput_over_fastest", {})
        for row in answer["rows"]:
            yield _training_row(row, ratios.get(row["variant"]))


def _network_rows(answer: Json) -> Iterator[Row]:
    speedups = {(one["network"], one["label"]): one for one in answer["speedups"]}
    for row in answer["networks"]:
        busbw = f", {gb_per_second(row['busbw_gb_per_s']).text} GB/s" if row["busbw_gb_per_s"] else ""
        samples = f", {rate(row['samples_per_s']).text} samples/s" if row["samples_per_s"] else ""
        found = speedups.get((row["network"], row["label"]))
        gain = f", {_ratio(found['ratio'])} of {inert(answer['baseline'])}'s speed" if found else ""
        proof = answer["proofs"][row["network"]]["verdict"]
        name = inert(f"{row['network']}, {row['label']}")
        yield name, f"{seconds(row['seconds']).text}{busbw}{samples}", f"{proof}{gain}"


def _ratio(ratio: Json) -> str:
    """``4.87x (4.61 to 5.02x)``."""
    between = interval(ratio).text
    return f"{times(ratio).text}{f' ({between})' if between != '-' else ''}"


def _scaling_rows(mode: Json) -> Iterator[Row]:
    for row in mode["rows"]:
        figures = f"{seconds(row['step_seconds']).text} a step, {rate(row['samples_per_s']).text} samples/s"
        speedup = f"{times(row['speedup']).text}, {ratio_share(row['efficiency']).text} efficient, "
        remark = f"{speedup if row['nodes'] != mode['base_nodes'] else ''}{row['band']}"
        yield f"{mode['mode']}, {count_of(row['nodes'], 'node')}", figures, remark


def _training_row(row: Json, ratio: Json | None) -> Row:
    if row["failed"]:
        return inert(row["variant"]), "not measured", inert(row["failed"])
    figures = f"{seconds(row['step_seconds']).text} a step, {rate(row['samples_per_s']).text} samples/s"
    share = f"{_ratio(ratio)} of the fastest, " if ratio else ""
    peak = memory(row["memory_bytes"], row.get("memory_kind")).text
    return inert(row["variant"]), figures, f"{share}peak {peak}"
