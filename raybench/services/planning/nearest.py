"""What is nearest to a plan of which nothing fits: plans that ask otherwise, the mildest first, until one has a way."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from raybench.services.planning.options import PlanOptions

_MOST_TIMES_NODES = 64
_FULL_NODE = 8  # GPUs
Changes = dict[str, str | int]  # options of raybench plan
Best = Callable[["PlanOptions"], str | None]  # a plan's best way in words; None: it has none that fits
_FUSED: Changes = {"kernels": "fused", "loss": "fused"}
_PACKED: Changes = {"method": "qlora"}


def nearest_plan(options: "PlanOptions", best_of: Best) -> tuple[str, ...]:
    """Options that make something fit on the same nodes; those that do on more of them, and with LoRA. Empty: nothing.

    Each with the way that they make fit: ``--nodes 4 (fsdp: 60 GiB)``. Kernels and loss change nothing of the result:
    where they are enough, nothing else is looked for.
    """

    def first(attempts: Iterable[Changes]) -> str:
        for changes in attempts:
            way = best_of(changed(options, changes))
            if way is not None:
                return " ".join(f"--{_option(name)} {value}" for name, value in changes.items()) + f" ({way})"
        return ""

    found: tuple[str, ...] = (first(filter(None, [_fused(options)])),)
    if not any(found):
        small = first(_with_small_moments(options))
        nodes = first(_nodes(options)) or first(_nodes_with_samples(options))
        found = (small, first(_one_sample_a_rank(options)), nodes, first(_adapters(options)))
    if not any(found):
        found = (first(_adapters_on_more(options)),)
    return tuple(filter(None, found))


def changed(options: "PlanOptions", changes: Changes) -> "PlanOptions":
    """The plan with these options."""
    own = {name: value for name, value in changes.items() if name in ("nodes", "method", "samples_per_step")}
    rest: dict[str, str | int | None] = {name: value for name, value in changes.items() if name not in own}
    if _PACKED.items() <= own.items():  # which has a base of its own
        rest["base_dtype"] = None
    return replace(options, **own, machine=replace(options.machine, **rest))  # type: ignore[arg-type]  # as named


def _fused(options: "PlanOptions") -> Changes:
    return {} if options.machine.kernels or options.machine.loss else _FUSED


def _with_small_moments(options: "PlanOptions") -> list[Changes]:
    """What costs no node, and little of the result; then weights without fp32 copies as well.

    As those do who tune a 7B model whole on one GPU (torchtune/recipes/configs/llama3_1/8B_full_single_device.yaml:
    dtype bf16, PagedAdamW8bit).
    """
    if options.machine.optimizer not in ("adam", "adamw"):
        return []
    small: Changes = {"optimizer": "adamw-8bit"}
    has_copies = options.method == "full" and options.machine.parameter_dtype is None
    narrow = [small | {"parameter_dtype": "bf16"}] if has_copies else []
    return [fused | changes for changes in (small, *narrow) for fused in ({}, _fused(options))]


def _option(name: str) -> str:
    return name.replace("_", "-")


def _nodes(options: "PlanOptions") -> list[Changes]:
    """More GPUs in the node, where it is not one that is sold as a whole, then more nodes, full ones if that is so."""
    has = options.machine.gpus_per_node if options.nodes == 1 and options.machine.node_type is None else None
    more: list[Changes] = [{"gpus_per_node": count} for count in (2, 4, _FULL_NODE) if has and count > has]
    full: Changes = {"gpus_per_node": _FULL_NODE} if more else {}
    more += [full | {"nodes": options.nodes * 2**power} for power in range(1, _MOST_TIMES_NODES.bit_length())]
    return [*more, *(_fused(options) | changes for changes in more)]


def _nodes_with_samples(options: "PlanOptions") -> list[Changes]:
    """More nodes with as many more samples a step, where those that are asked for are too few to go round."""
    samples = options.samples_per_step
    if samples is None:
        return []
    times = (2**power for power in range(1, _MOST_TIMES_NODES.bit_length()))
    return [{"nodes": options.nodes * many, "samples_per_step": samples * many} for many in times]


def _one_sample_a_rank(options: "PlanOptions") -> list[Changes]:
    """One sample a rank and step, of a program: some add whole gradients up over several, and have no room for them."""
    from raybench.hardware.nodes import node_type_named

    if options.machine.program is None:
        return []
    node = node_type_named(options.machine.node_type) if options.machine.node_type else None
    per_node = options.machine.gpus_per_node or (node.gpus if node else _FULL_NODE)
    return [fused | {"samples_per_step": options.nodes * per_node} for fused in ({}, _fused(options))]


def _adapters(options: "PlanOptions") -> list[Changes]:
    methods = ("lora", "qlora")[("full", "lora", "qlora").index(options.method) :]
    return [fused | {"method": method} for fused in ({}, _fused(options)) for method in methods]


def _adapters_on_more(options: "PlanOptions") -> list[Changes]:
    return [_PACKED | changes for changes in _nodes(options)] if options.method != "qlora" else []
