"""Matrix products: exact where the result is known, the same again and again, and how fast.

Three figures for each precision on each device. ``gemm-exact`` compares every element of a product with what it must
be. ``gemm-repeat`` computes one product of random numbers again and again, and compares each result bit by bit with
the first, and on a node with several GPUs of a model the first with that of the first GPU: a library gives the same
bits for the same sizes on the same GPU, so another bit is silent data corruption. ``gemm-speed`` is TFLOP/s (10^12
operations a second, two for a multiplication with its addition), a sample each block.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

from raybench.benchmarks.node_tests.devices import Device, devices, is_out_of_order, repeats_for, seconds_of
from raybench.benchmarks.node_tests.pattern import dense_operands, exact_operands
from raybench.benchmarks.node_tests.plan import Figure, Plan, say
from raybench.benchmarks.node_tests.precision import PRECISIONS, Precision

_LEAST_COMPARED = 4
_EXACT_TIMES = 8
_FIGURES = ("gemm-exact", "gemm-repeat", "gemm-speed")


def run(plan: Plan) -> None:
    """All precisions, each on all devices at once, as a training loads them.

    Blocks of the precisions alternate, so that the samples of each are spread over the whole time: what lasts for a
    moment spoils a few of them.
    """
    found = devices()
    _exact_reductions()
    tests = [[_Test(device, one) for device in found if not _left_out(device, one)] for one in PRECISIONS]
    exact = exact_operands(plan.gpu_widths[0] if found[0].is_gpu else plan.cpu_widths[0])
    dense = dense_operands(plan.gpu_widths[1] if found[0].is_gpu else plan.cpu_widths[1])
    with ThreadPoolExecutor(len(found)) as pool:
        for step in (
            lambda one: one.exact(*exact),
            lambda one: one.prepare(*dense, plan.block_seconds),
            *([lambda one: one.measure()] * plan.samples),
        ):
            for precision, group in zip(PRECISIONS, tests):
                _set_tf32(wanted=precision.tf32)
                list(pool.map(step, group))
    for group in tests:
        _say_all(group)


def _left_out(device: Device, precision: Precision) -> bool:
    why = precision.why_not(device)
    for test in _FIGURES if why else ():
        say(Figure(test, device.name, precision.name, "skipped", why, device.model))
    return bool(why)


class _Test:
    """One precision on one device. A step that raises ends it; what was found until then is kept."""

    def __init__(self, device: Device, precision: Precision) -> None:
        self.device = device
        self.precision = precision
        self.setting = ""
        self.status, self.reason = "ok", ""
        self.checked = self.wrong = self.compared = self.changed = 0
        self.samples: list[float] = []
        self.first: Any = None
        self._product: Callable[[], Any] = lambda: None
        self._times, self._operations = 1, 0.0

    def exact(self, first: Any, second: Any, product: Any) -> None:
        """Products whose elements are known."""

        def step() -> None:
            multiply = self.precision.bound(first.to(self.device.torch_name), second.to(self.device.torch_name))
            for _ in range(_EXACT_TIMES):
                wrong = multiply().float().cpu() != product.float()
                self.checked += wrong.numel()
                self.wrong += int(wrong.sum())

        self._guarded(step)

    def prepare(self, first: Any, second: Any, block_seconds: float) -> None:
        """The product of random numbers that is timed, its first result, and how often it fits into a block."""

        def step() -> None:
            self._product = self.precision.bound(first.to(self.device.torch_name), second.to(self.device.torch_name))
            self.first = self._product().clone()
            self._operations = 2.0 * first.shape[0] ** 3
            self._times = repeats_for(self._product, self.device, block_seconds)
            self.setting = f"{first.shape[0]} x {first.shape[0]}, {self.device.stack}"

        self._guarded(step)

    def measure(self) -> None:
        """A block that is timed, and then results that are compared."""

        def step() -> None:
            seconds = seconds_of(self._product, self._times, self.device)
            self.samples.append(self._operations * self._times / seconds / 1e12)
            for _ in range(max(_LEAST_COMPARED, self._times // 4)):
                self.changed += differing(self._product(), self.first)
                self.compared += self.first.numel()

        self._guarded(step)

    def _guarded(self, step: Callable[[], None]) -> None:
        if self.status != "ok":
            return
        try:
            step()
        except (RuntimeError, NotImplementedError, TypeError) as error:
            self.status = "failed" if is_out_of_order(error) else "missing"
            self.reason = " ".join(str(error).split())[:300]


def differing(result: Any, first: Any) -> int:
    """In how many elements two results differ, bit by bit: two NaNs that are the same are no difference."""
    import torch

    whole = {1: torch.int8, 2: torch.int16, 4: torch.int32}[first.element_size()]
    return int((result.view(whole) != first.view(whole)).sum())


def _say_all(tests: Iterable[_Test]) -> None:
    reference: _Test | None = None
    for test in tests:
        common: dict[str, Any] = {"device": test.device.name, "case": test.precision.name, "model": test.device.model}
        common |= {"status": test.status, "reason": test.reason, "setting": test.setting}
        if reference is None and test.first is not None:
            reference = test
        elif reference is not None and test.first is not None and test.device.model == reference.device.model:
            test.changed += differing(test.first.cpu(), reference.first.cpu())  # gpu: node-tests
            test.compared += test.first.numel()
        say(Figure("gemm-exact", checked=test.checked, wrong=test.wrong, **common))
        say(Figure("gemm-repeat", checked=test.compared, wrong=test.changed, **common))
        say(Figure("gemm-speed", unit="TFLOP/s", samples=tuple(test.samples), **common))


def _exact_reductions() -> None:
    """Sums of 16-bit products in fp32: an option of torch lets them be rounded on the way."""
    import torch

    matmul = torch.backends.cuda.matmul
    for name in ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction"):
        if hasattr(matmul, name):
            setattr(matmul, name, False)


def _set_tf32(*, wanted: bool) -> None:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = wanted
