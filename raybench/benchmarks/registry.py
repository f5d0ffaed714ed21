"""Every workload there is, and the named suites. A workload is a line here, or an entry point of an installed package.

Entry points of the group ``raybench.workloads`` are looked up where a name is not in the table, and only there.
"""

import importlib
from functools import cache
from typing import Any

from raybench.benchmarks.messages.operations import OPERATIONS
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.benchmarks.workload import Records, Request, Workload
from raybench.errors import UsageError, unknown_name

ENTRY_POINTS = "raybench.workloads"
WORKLOADS: dict[str, str] = {
    "collective": "raybench.benchmarks.messages.workload:COLLECTIVE",
    "p2p": "raybench.benchmarks.messages.workload:P2P",
    "training": "raybench.benchmarks.training.workload:WORKLOAD",
    "memory": "raybench.benchmarks.memory.workload:WORKLOAD",
    "checkpoint": "raybench.benchmarks.checkpoint.workload:WORKLOAD",
}
SUITES: dict[str, tuple[str, ...]] = {
    "collectives": tuple(OPERATIONS),
    "quick": ("all_reduce",),
    "p2p": ("send_recv", "p2p_matrix"),
    "training": ("ddp", "fsdp"),
    "all": (*OPERATIONS, "ddp", "fsdp", "memory", "checkpoint"),
}


@cache
def workload_of(kind: str) -> Workload:
    """The workload of a kind. Raises UsageError where there is none, or an installed one cannot be loaded."""
    if kind in WORKLOADS:
        return _built_in(kind)
    installed = {one.kind: one for one in _installed()}
    if kind not in installed:
        raise unknown_name("kind of workload installed here", kind, (*WORKLOADS, *installed))
    return installed[kind]


def records_of(kind: str) -> Records[Any]:
    """What the driver does with the records of a workload. Raises ValueError for one that has none."""
    path = workload_of(kind).records
    if path is None:
        raise ValueError(f"ranks of a {kind} benchmark measure messages, and make no records")
    return _records(path)


@cache
def _records(path: str) -> Records[Any]:
    records: Records[Any] = _loaded(path)
    return records


def has_options(kind: str) -> bool:
    """Whether there is a workload of that kind that takes options."""
    known = kind in WORKLOADS or any(one.kind == kind for one in _installed())
    return known and workload_of(kind).options is not None


def module_of(spec: BenchmarkSpec) -> str:
    """The module whose ``run`` a rank calls for a benchmark."""
    return workload_of(spec.kind).benchmarks[spec.name]


def labels_of(spec: BenchmarkSpec, world_size: int) -> tuple[str, ...]:
    """A name of each point that a benchmark measures, in order: sizes, pairs, or what a workload is made of."""
    return workload_of(spec.kind).labels(spec, world_size)


def parameters_of(spec: BenchmarkSpec) -> dict[str, Any]:
    """The parameters of a benchmark as a result records them."""
    return dict(workload_of(spec.kind).parameters(spec))


def names_of(suite: str) -> tuple[str, ...]:
    """Benchmark names of a comma list of suites and benchmarks, each once, in the order given.

    Raises UsageError for a name that is neither, listing what there is.
    """
    names: list[str] = []
    for part in (text.strip() for text in suite.split(",")):
        if part not in SUITES:
            _workload_with(part)
        names += [name for name in SUITES.get(part, (part,)) if name not in names]
    return tuple(names)


def specs_of(suite: str, request: Request) -> tuple[BenchmarkSpec, ...]:
    """The specs of all benchmarks of a suite, in order."""
    return tuple(spec for name in names_of(suite) for spec in _planned(_workload_with(name), name, request))


def _planned(workload: Workload, name: str, request: Request) -> tuple[BenchmarkSpec, ...]:
    """As the workload plans it; else one spec with its own options, and none of the messages'."""
    if workload.plan is not None:
        return workload.plan(name, request)
    options = request.options.get(workload.kind)
    if options is None and workload.options is not None:
        options = workload.options()
    spec = BenchmarkSpec(name=name, kind=workload.kind, sizes=(), verify=request.template.verify, options=options)
    workload.check_spec(spec)
    return (spec,)


def _workload_with(name: str) -> Workload:
    """The workload that has a benchmark of that name. Raises UsageError where none has."""
    for kind in WORKLOADS:
        if name in _built_in(kind).benchmarks:
            return _built_in(kind)
    installed = _installed()
    for workload in installed:
        if name in workload.benchmarks:
            return workload
    known = [*map(_built_in, WORKLOADS), *installed]
    raise unknown_name("suite or benchmark", name, (*SUITES, *(name for one in known for name in one.benchmarks)))


@cache
def _built_in(kind: str) -> Workload:
    workload: Workload = _loaded(WORKLOADS[kind])
    return workload


@cache
def _installed() -> tuple[Workload, ...]:
    """Those of other packages. Raises UsageError for one that cannot be loaded."""
    from importlib.metadata import entry_points  # of use only here, and no command should wait for it

    return tuple(_checked(point.name, point.value, point.dist) for point in entry_points(group=ENTRY_POINTS))


def _checked(kind: str, path: str, package: Any) -> Workload:
    whose = f"the workload '{kind}' of the installed package {package.name if package else path}"
    try:
        workload = _loaded(path)
    except Exception as error:
        raise UsageError(f"{whose} cannot be loaded ({type(error).__name__}: {error}); mend or uninstall it") from error
    if not isinstance(workload, Workload) or workload.kind != kind:
        raise UsageError(f"{whose} is not a raybench.benchmarks.workload.Workload of that kind; mend or uninstall it")
    return workload


def _loaded(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
