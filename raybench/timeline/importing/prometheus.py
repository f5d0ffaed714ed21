"""Prometheus: its text format with timestamps (``/federate``, ``promtool``), and the JSON of a range query.

DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1f02",Hostname="gpu-01"} 97 1795400000000
{"status":"success","data":{"resultType":"matrix","result":[
 {"metric":{"__name__":"node_infiniband_symbol_error_total","instance":"gpu-01:9100","device":"mlx5_0","port":"1"},
  "values":[[1795400000,"12"],[1795400015,"14"]]}]}}
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from diagnostics.agent.series import split_name
from raybench.timeline.importing.metrics import BITS, IDLE, METRICS, OF_MODES, PROCESSORS, REASONS
from raybench.timeline.importing.sample import Format, ImportedFileError, Parsed, Sample, Told, number_of

_NUMBER = r"[+-]?(?:[0-9.]+(?:e[+-]?[0-9]+)?|inf|nan)"
_NAMED = r"([a-z_:][\w:]*)(?:\s*\{(.*)\})?"
_LINE = re.compile(rf"{_NAMED}\s+({_NUMBER})(?:\s+(-?\d+))?(?:\s+#.*)?", re.ASCII | re.IGNORECASE)
_LABEL = re.compile(r'\s*([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?', re.ASCII)
_HOST_LABELS = ("Hostname", "hostname", "node", "kubernetes_node", "host", "instance")
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    """One value of a metric, with its labels."""

    name: str
    labels: Mapping[str, str]
    at: float
    value: float


def _is_text(text: str) -> bool:
    lines = [line for line in text[:4000].splitlines()[:-1] or text.splitlines() if line.strip()]
    metrics = [line for line in lines if not line.startswith("#")]
    return bool(metrics) and all(_LINE.fullmatch(line.strip()) for line in metrics[:5])


def _parse_text(text: str, told: Told, where: str) -> Parsed:
    values = list(_lines(text, told, where))
    return _parsed(values)


def _lines(text: str, told: Told, where: str) -> Iterator[_Value]:
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        found = _LINE.fullmatch(stripped)
        if found is None:
            raise ImportedFileError(f"{where}:{number} is not a line of Prometheus' text format: {stripped[:80]!r}")
        value = number_of(found[3])
        if value is None:
            continue
        at = int(found[4]) / 1000 if found[4] else told.reading(0, f"{where}:{number}")
        yield _Value(name=found[1], labels=dict(_LABEL.findall(found[2] or "")), at=at, value=value)


def _is_query(text: str) -> bool:
    return text.lstrip()[:1] == "{" and '"resultType"' in text[:4000]


def _parse_query(text: str, _: Told, where: str) -> Parsed:
    try:
        content = json.loads(text)
        return _parsed(list(_query(content)))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ImportedFileError(
            f"{where} is not an answer of a range query ({type(error).__name__}: {error})"
        ) from error


def _query(content: Any) -> Iterator[_Value]:
    if content["status"] != "success" or content["data"]["resultType"] != "matrix":
        kind = content["data"]["resultType"] if content["status"] == "success" else content["status"]
        raise ValueError(f"a matrix is read, it is: {str(kind)[:40]}")
    for series in content["data"]["result"]:
        labels = {str(name): str(value) for name, value in series["metric"].items()}
        name = labels.pop("__name__", "")
        for at, text in series["values"]:
            value = number_of(str(text))
            if value is not None:
                yield _Value(name=name, labels=labels, at=float(at), value=value)


def _parsed(values: Iterable[_Value]) -> Parsed:
    samples: list[Sample] = []
    unknown: Counter[str] = Counter()
    processors: dict[tuple[str, float], list[_Value]] = defaultdict(list)
    for value in values:
        if value.name == PROCESSORS:
            processors[_host(value.labels), value.at].append(value)
        elif value.name in REASONS:
            samples += _reasons(value)
        elif (sample := _sample(value)) is not None:
            samples.append(sample)
        else:
            unknown[value.name or "values without a name"] += 1
    samples += [sample for (host, at), each in processors.items() for sample in _of_processors(host, at, each)]
    named = [name for name, _ in unknown.most_common(_MOST_NAMED)]
    more = [f"{len(unknown) - _MOST_NAMED} more metrics"] if len(unknown) > _MOST_NAMED else []
    return Parsed(samples=tuple(samples), omitted=(*named, *more))


def _host(labels: Mapping[str, str]) -> str:
    """``gpu-01`` of ``instance="gpu-01:9100"``: dcgm-exporter says whose GPUs they are, which its instance may not."""
    found = next((labels[name] for name in _HOST_LABELS if labels.get(name)), "")
    return re.sub(r":\d+$", "", found)


def _sample(value: _Value) -> Sample | None:
    metric = METRICS.get(value.name)
    if metric is None:
        return None
    try:
        series = metric.series.format_map(value.labels)
        split_name(series)
    except (KeyError, ValueError):
        return None
    return Sample(host=_host(value.labels), at=value.at, series=series, value=value.value * metric.factor)


def _reasons(value: _Value) -> Iterator[Sample]:
    if value.labels.get("gpu", "").isdecimal():
        for name, bits in BITS.items():
            flag = int(bool(int(value.value) & bits))
            yield Sample(host=_host(value.labels), at=value.at, series=f"gpu/{value.labels['gpu']}/{name}", value=flag)


def _of_processors(host: str, at: float, each: list[_Value]) -> Iterator[Sample]:
    """The host's own from those of its processors, where all modes of all of them are there."""
    cores = {one.labels.get("cpu", "") for one in each}
    modes = {one.labels.get("mode", "") for one in each}
    if not modes >= IDLE or "user" not in modes or len(each) != len(cores) * len(modes):
        return
    busy = sum(one.value for one in each if one.labels["mode"] not in IDLE)
    yield Sample(host=host, at=at, series="host/cpu/cores", value=len(cores))
    yield Sample(host=host, at=at, series="host/cpu/busy_seconds", value=busy)
    for mode, series in OF_MODES.items():
        if mode in modes:
            total = sum(one.value for one in each if one.labels["mode"] == mode)
            yield Sample(host=host, at=at, series=series, value=total)


TEXT = Format(title="Prometheus' text format", is_it=_is_text, parse=_parse_text)
RANGE_QUERY = Format(title="a Prometheus range query", is_it=_is_query, parse=_parse_query)
