"""The parts of a ``raybench.result/1`` that other commands read, with their types. More, or less, may be in it."""

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Number = float | None


class _Seconds(TypedDict):
    median: NotRequired[Annotated[float, msgspec.Meta(gt=0)] | None]
    mean: NotRequired[_Number]


class _Point(TypedDict):
    message_bytes: NotRequired[_Count]
    seconds: NotRequired[_Seconds | None]
    ci95_seconds: NotRequired[list[float] | None]
    busbw_gb_per_s: NotRequired[_Number]
    wrong_elements: NotRequired[_Count]
    verified: NotRequired[bool | None]
    label: NotRequired[str]
    failed: NotRequired[str | None]
    complete: NotRequired[bool]
    steps: NotRequired[int | None]
    samples_per_s: NotRequired[_Number]
    tokens_per_s: NotRequired[_Number]
    communication: NotRequired[dict[str, Any] | None]
    memory: NotRequired[dict[str, float | str | bool | None] | None]
    loss: NotRequired[dict[str, Any] | None]
    facts: NotRequired[dict[str, Any] | None]


class _Benchmark(TypedDict):
    name: NotRequired[str]
    kind: NotRequired[str]
    parameters: NotRequired[dict[str, Any]]
    points: NotRequired[list[_Point]]
    status: NotRequired[str]
    reason: NotRequired[str | None]


class _Node(TypedDict):
    name: NotRequired[str]
    facts: NotRequired[dict[str, Any]]
    ranks: NotRequired[list[_Count]]


class _Cluster(TypedDict):
    nodes: NotRequired[list[_Node]]
    world_size: NotRequired[_Count]
    backend: NotRequired[str]
    emulated: NotRequired[bool]


class _Finding(TypedDict):
    severity: NotRequired[str]
    summary: NotRequired[str]


class _Result(TypedDict):
    run_id: NotRequired[str]
    status: NotRequired[str]
    started_at: NotRequired[str]
    cluster: NotRequired[_Cluster]
    benchmarks: NotRequired[list[_Benchmark]]
    findings: NotRequired[list[_Finding]]


def check_result(content: Mapping[str, Any]) -> None:
    """Raises msgspec.ValidationError, which names the place, where a part is of another type."""
    msgspec.convert(content, _Result)
