"""``amd-smi`` and ``rocm-smi``, as JSON or as text: what they say of each GPU, by the names that amd-smi gives."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

Tree = dict[str, Any]
_ABSENT = frozenset({"", "N/A", "n/a", "None", "UNKNOWN"})
_GPU_LISTS = ("gpu_data", "gpus", "xgmi_metric", "link_status")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_ROCM_GPU = re.compile(r"^GPU\[(\d+)\]\s*:?\s*(.*)$")
_ROCM_BLOCK = re.compile(r"^\s*([A-Z][A-Z0-9_]+)\s+(?:ENABLED|DISABLED)\s+(\d+)\s+(\d+)\s*$")


def parse_amd_smi(text: str) -> tuple[Tree, ...]:
    """GPUs in the order of the output. Newer ones are {"gpu_data": [...]} in JSON, older ones a list. Sample (6.4)::

    GPU: 0
        ECC:
            TOTAL_CORRECTABLE_COUNT: 0
            TOTAL_UNCORRECTABLE_COUNT: 0
    """
    start = min((text.find(mark) for mark in "[{" if mark in text), default=-1)
    if start >= 0:
        try:
            return tuple(_of_json(json.JSONDecoder().raw_decode(text[start:])[0]))
        except (ValueError, RecursionError):
            pass
    return tuple(_of_text(text))


def _of_json(found: Any) -> Iterator[Tree]:
    if isinstance(found, dict):
        found = next((value for key, value in found.items() if key in _GPU_LISTS), [found])
    for one in found if isinstance(found, list) else ():
        if isinstance(one, dict):
            yield _lowered(one)


def _lowered(node: Any) -> Any:
    """Keys in small letters, {"value": 54, "unit": "C"} as its value, and what a GPU does not have left out."""
    if isinstance(node, dict):
        if set(node) == {"value", "unit"}:
            return _lowered(node["value"])
        kept = {str(key).lower().replace(" ", "_"): _lowered(value) for key, value in node.items()}
        return {key: value for key, value in kept.items() if value is not None}
    if isinstance(node, list):
        return [_lowered(one) for one in node]
    return None if node is None or str(node).strip() in _ABSENT else node


def _of_text(text: str) -> Iterator[Tree]:
    root: Tree = {}
    stack: list[tuple[int, Tree]] = []
    for line in text.splitlines():
        match = re.match(r"^(\s*)([A-Za-z][\w /-]*):(?:\s+(.*?))?\s*$", line)
        if match is None:
            continue
        indent, key, value = len(match[1]), match[2].lower().replace(" ", "_"), match[3] or ""
        if indent == 0 and key in {"gpu", "cpu"}:
            if "gpu" in root:
                yield root
            root = {key: value}
            stack = [(0, root)]
            continue
        while len(stack) > 1 and stack[-1][0] >= indent:
            stack.pop()
        if not stack or value in _ABSENT - {""}:
            continue
        if value:
            stack[-1][1][key] = value
        else:
            child: Tree = {}
            stack[-1][1][key] = child
            stack.append((indent, child))
    if "gpu" in root:
        yield root


def at(gpu: Mapping[str, Any], *path: str) -> Any:
    """The value below these names; None where it is not there."""
    node: Any = gpu
    for name in path:
        node = node.get(name) if isinstance(node, Mapping) else None
    return node


def number(gpu: Mapping[str, Any], *path: str) -> float | None:
    """The number that a value begins with: of ``550 W`` 550; None where there is none."""
    match = _NUMBER.match(str(at(gpu, *path)))
    return float(match[0]) if match else None


def parse_rocm_smi(text: str) -> tuple[Tree, ...]:
    """The same of ``rocm-smi``, where there is no amd-smi. Samples (ROCm 5.7)::

    GPU[0]          : Temperature (Sensor junction) (C): 45.0
    GPU[0]:
             Block     Status  Correctable Error  Uncorrectable Error
               UMC    ENABLED                  0                    0
    """
    found: dict[int, Tree] = {}
    gpu: Tree = {}
    for number_of, values in _rocm_json(text):
        gpu = found.setdefault(number_of, {"gpu": str(number_of)})
        for name, value in values.items():
            _rocm_value(gpu, f"{name}: {value}")
    for line in text.splitlines():
        head = _ROCM_GPU.match(line)
        if head:
            gpu = found.setdefault(int(head[1]), {"gpu": head[1]})
            _rocm_value(gpu, head[2])
        block = _ROCM_BLOCK.match(line)
        if block and gpu:
            ecc = gpu.setdefault("ecc", {"total_correctable_count": 0, "total_uncorrectable_count": 0})
            ecc["total_correctable_count"] += int(block[2])
            ecc["total_uncorrectable_count"] += int(block[3])
    return tuple(found[index] for index in sorted(found))


def _rocm_json(text: str) -> Iterator[tuple[int, Tree]]:
    """GPUs of ``rocm-smi --json``: ``{"card0": {"Temperature (Sensor junction) (C)": "45.0"}}``."""
    start = text.find('{"')
    try:
        found = json.JSONDecoder().raw_decode(text[start:])[0] if start >= 0 else {}
    except (ValueError, RecursionError):
        return
    for name, values in found.items():
        numbered = re.fullmatch(r"[a-z]+(\d{1,4})", str(name))
        if numbered and isinstance(values, dict):
            yield int(numbered[1]), values


_ROCM_NAMES = {"XGMI Error count": ("xgmi_err",), "PCIe Replay Count": ("pcie", "replay_count")}


def _rocm_value(gpu: Tree, said: str) -> None:
    name, _, value = said.rpartition(": ")
    sensor = re.match(r"Temperature \(Sensor (\w+)\)", name)
    if sensor:
        names = {"junction": "hotspot", "memory": "mem"}
        gpu.setdefault("temperature", {})[names.get(sensor[1], sensor[1])] = value
    path = _ROCM_NAMES.get(name)
    if path and value.strip() not in _ABSENT:
        node = gpu.setdefault(path[0], {}) if len(path) > 1 else gpu
        node[path[-1]] = value.strip()
