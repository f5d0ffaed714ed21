"""Between the host's memory and its GPUs, and between GPUs: whether bytes arrive as they left, and how fast.

``transfer-speed`` is GB/s (10^9 bytes) of one direction, through pinned memory, a GPU at a time: what its PCIe slot
gives (16 lanes of generation 5: 63 GB/s before headers). ``peer-speed`` is a copy from one GPU into another, each
ordered pair by itself: over NVLink or Infinity Fabric, over PCIe, or where ``detail`` says so through the host. A CPU
has neither.
"""

from __future__ import annotations

from typing import Any, Callable

from raybench.benchmarks.node_tests.devices import Device, devices, is_out_of_order, repeats_for, seconds_of
from raybench.benchmarks.node_tests.plan import Figure, Plan, say

_MIB = 1 << 20
_FIGURES = ("transfer-exact", "transfer-speed")


def run(plan: Plan) -> None:
    """One GPU after the other."""
    found = devices()
    for device in found:
        if device.is_gpu:
            _host_and_device(device, plan)  # gpu: node-tests
        else:
            for test in _FIGURES:
                say(Figure(test, device.name, status="skipped", reason="no GPU", model=device.model))


def _host_and_device(device: Device, plan: Plan) -> None:  # gpu: node-tests
    import torch

    def made() -> tuple[Any, Any, Any]:
        sent = _pattern(plan.transfer_mib).pin_memory()
        return sent, torch.empty_like(sent, device=device.torch_name), torch.empty_like(sent).pin_memory()

    def works() -> tuple[Callable[[], int], dict[str, Callable[[], object]]]:
        sent, there, back = made()

        def wrong() -> int:
            there.copy_(sent)
            back.copy_(there)
            return int((back != sent).sum())

        return wrong, {
            "to device": lambda: there.copy_(sent, non_blocking=True),
            "from device": lambda: back.copy_(there, non_blocking=True),
        }

    _measured("transfer", device, plan, works)


def peers(plan: Plan) -> None:
    """Every ordered pair of GPUs."""
    found = [one for one in devices() if one.is_gpu]
    if len(found) < 2:
        reason = "one GPU" if found else "no GPU"
        for test in ("peer-exact", "peer-speed"):
            say(Figure(test, "host", status="skipped", reason=reason))
    for first in found:
        for second in found:
            if first != second:
                _pair(first, second, plan)  # gpu: node-tests


def _pair(first: Device, second: Device, plan: Plan) -> None:  # gpu: node-tests
    import torch

    def works() -> tuple[Callable[[], int], dict[str, Callable[[], object]]]:
        must = _pattern(plan.transfer_mib)
        sent = must.to(first.torch_name)
        there = torch.empty_like(sent, device=second.torch_name)

        def wrong() -> int:
            there.copy_(sent)
            return int((there.cpu() != must).sum())

        return wrong, {f"to {second.name}": lambda: there.copy_(sent, non_blocking=True)}

    reached = torch.cuda.can_device_access_peer(first.torch_name, second.torch_name)
    _measured("peer", first, plan, works, "" if reached else "through the host")


def _measured(  # gpu: node-tests
    name: str,
    device: Device,
    plan: Plan,
    works: Callable[[], tuple[Callable[[], int], dict[str, Callable[[], object]]]],
    detail: str = "",
) -> None:
    status, reason, wrong = "ok", "", 0
    found: dict[str, tuple[float, ...]] = {"": ()}
    try:
        count_wrong, cases = works()
        wrong = count_wrong()
        times = {case: repeats_for(work, device, plan.block_seconds) for case, work in cases.items()}
        sent = plan.transfer_mib * _MIB / 1e9
        found = {
            case: tuple(sent * times[case] / seconds_of(work, times[case], device) for _ in range(plan.samples))
            for case, work in cases.items()
        }
    except RuntimeError as error:
        status = "failed" if is_out_of_order(error) else "missing"
        reason = " ".join(str(error).split())[:300]
    common: dict[str, Any] = {"device": device.name, "model": device.model, "status": status, "reason": reason}
    common |= {"setting": f"{plan.transfer_mib} MiB, {device.stack}", "detail": detail}
    checked = plan.transfer_mib * _MIB // 8 if status == "ok" else 0
    case = next(iter(found)) if name == "peer" else ""
    say(Figure(f"{name}-exact", case=case, checked=checked, wrong=wrong, **common))
    for one, samples in found.items():
        say(Figure(f"{name}-speed", case=one, unit="GB/s", samples=samples, **common))


def _pattern(mib: int) -> Any:
    import torch

    return torch.arange(mib * _MIB // 8, dtype=torch.int64).mul_(0x1E3779B97F4A7C15)
