"""What a run is asked to do: defaults, a YAML file, then the command line, each over the one before."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import msgspec

from raybench.benchmarks.messages.operations import OPERATIONS, is_matrix
from raybench.benchmarks.registry import WORKLOADS, has_options, names_of, specs_of, workload_of
from raybench.benchmarks.spec import DTYPE_BYTES, MOST_OWN_SAMPLES, REDUCE_OPS, BenchmarkSpec
from raybench.benchmarks.workload import Request
from raybench.errors import UsageError, known_names, unknown_value
from raybench.secret_values import recorded_pair, without_secrets
from raybench.sizes import parse_sizes
from raybench.trackers.registry import names_of as tracker_names
from raybench.units import parse_amount, parse_bytes

# Far above what makes sense: a slip of the finger is refused here, and not by a run that never ends.
_MOST = {
    "timeout": (100 * 86400, " (100 days)"),
    "keep_warm": (100 * 86400, " (100 days)"),
    "warmup": (1_000_000, ""),
    "iters": (1_000_000, ""),
    "blocks": (10_000, ""),
    "repeats": (1000, ""),
    "max_repeats": (1000, ""),
    "nodes": (100_000, ""),
    "gpus_per_node": (1024, ""),
}
_OWNED = {
    "CUDA_VISIBLE_DEVICES": "each rank sees all GPUs of its node, so that NCCL finds their links, and takes its own; "
    "set it where Ray is started on a node to leave GPUs out",
    "NCCL_DEBUG_FILE": "each rank logs to a file of its own, in logs/ of the run's folder",
    **dict.fromkeys(
        ("RANK", "LOCAL_RANK", "WORLD_SIZE"), "raybench numbers the ranks; see --nodes and --gpus-per-node"
    ),
}
_TEXTS = ("sizes", "p2p_size", "log_limit")
_LEAST_NODES = 2
_OWN_SAMPLES = 60  # of the ranks' own speed over a run
_LEAST_OWN_SAMPLES = 3  # beside each point, so that a slow rank shows within a few of them
_MORE_LAUNCHES = 3  # times --repeats
LAUNCHED = "launched"  # in place of a cluster's address: the ranks come from the user's own launcher
DEFAULT_SIZES = {"nccl": "8:8G:2", "gloo": "1K:16M:4", "mlx": "1K:16M:4"}
BACKENDS = tuple(DEFAULT_SIZES)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """A run as asked for. Sizes are text as typed; None means "as the cluster or the backend allows".

    ``only_nodes``: names of the nodes to take, where it is not all of the cluster, or its first ``nodes``.
    ``track``: experiment trackers that hear of it; an item may be a comma list.
    ``options`` of workloads by their kind, such as ``{"training": TrainingOptions(steps=50)}``.
    """

    nodes: int | None = None
    gpus_per_node: int | None = None
    suite: str = "collectives"
    sizes: str | None = None
    p2p_size: str = "4M"
    dtype: str = "float32"
    op: str = "sum"
    root: int = 0
    placement: str = "both"
    warmup: int = 5
    iters: int | None = None
    blocks: int = 5
    repeats: int = 1
    max_repeats: int | None = None
    timeout: float = 300.0
    backend: str | None = None
    address: str = "auto"
    master_port: int = 0
    output_dir: str = "runs"
    log_limit: str = "16M"
    env: tuple[str, ...] = ()
    verify: bool = True
    allow_mixed: bool = False
    keep_warm: float = 0.0
    baseline: str | None = None
    agent: bool = True
    isolate: bool = False
    continue_without: bool = False
    min_nodes: int | None = None
    only_nodes: tuple[str, ...] = ()
    track: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_counts(self)
        _check_names(self)
        _check_isolation(self)
        for kind, options in self.options.items():
            workload_of(kind).check(options)
        if self.sizes is not None:
            parse_sizes(self.sizes)
        parse_bytes(self.p2p_size)
        parse_amount("--log-limit", self.log_limit, "4K")  # NCCL's first lines take more
        self.variables()

    @property
    def isolates(self) -> bool:
        """Whether suspects are measured again. Only a node that is proven to be at fault is dropped."""
        return self.isolate or self.continue_without

    @property
    def most_launches(self) -> int:
        """How many launches there may be where those planned lie too far apart; more are never made of a single one."""
        if self.max_repeats is not None:
            return self.max_repeats
        return _MORE_LAUNCHES * self.repeats if self.repeats > 1 else 1

    @property
    def least_nodes(self) -> int:
        """How many nodes are left at least where some are dropped."""
        return _LEAST_NODES if self.min_nodes is None else self.min_nodes

    def variables(self) -> dict[str, str]:
        """``--env NAME=VALUE`` as a mapping; ``--env NAME`` takes the value of this shell.

        Raises UsageError for text without a name, for a name that is not set, and for names not to be set.
        """
        pairs = [text.partition("=") if "=" in text else (text, "", os.environ.get(text, "")) for text in self.env]
        for name, equals, value in pairs:
            if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
                raise UsageError(f"--env {name + equals!a} is not NAME=VALUE, such as NCCL_ALGO=Ring")
            if not equals and name not in os.environ:
                raise UsageError(f"--env {name!a} is not NAME=VALUE, and this shell has no variable {name} to take")
            if "\0" in value:
                raise UsageError(f"--env {name} holds a NUL character, which no variable can hold; remove it")
            reason = _refusal(name)
            if reason:
                raise UsageError(f"--env {name} cannot be set: {reason}")
        return {name: value for name, _, value in pairs}

    def plan(self, backend: str) -> tuple[BenchmarkSpec, ...]:
        """The benchmarks to run on a backend, in order. Raises UsageError for a workload that it never runs."""
        template = BenchmarkSpec(
            name="",
            kind="collective",
            sizes=parse_sizes(self.sizes or DEFAULT_SIZES[backend]),
            root=self.root,
            warmup=self.warmup,
            iterations=self.iters,
            blocks=self.blocks,
            verify=self.verify,
        )
        request = Request(
            template=template,
            placement=self.placement,
            reduce_ops=_parts(self.op),
            dtypes=_parts(self.dtype),
            options=self.options,
        )
        specs = specs_of(self.suite, request)
        specs = _of_mlx(specs) if backend == "mlx" else specs
        pair_sizes = (parse_bytes(self.p2p_size),)
        specs = tuple(replace(spec, sizes=pair_sizes) if is_matrix(spec) else spec for spec in specs)
        points = sum(len(spec.sizes) for spec in specs if _is_swept(spec))
        if not points:  # nothing but pairs, or workloads that have no use for it
            return tuple(replace(spec, own_samples=_OWN_SAMPLES) for spec in specs)
        own_samples = min(max(-(-_OWN_SAMPLES // points), _LEAST_OWN_SAMPLES), MOST_OWN_SAMPLES)
        return tuple(replace(spec, own_samples=own_samples) if _is_swept(spec) else spec for spec in specs)

    def to_json(self) -> dict[str, Any]:
        """Every setting as a plain value, secrets as set; the options of a workload below its kind."""
        settings: dict[str, Any] = without_secrets(asdict(self) | {"env": tuple(map(recorded_pair, self.env))})
        workloads: dict[str, Any] = settings.pop("options")
        return settings | workloads


def _of_mlx(specs: Sequence[BenchmarkSpec]) -> tuple[BenchmarkSpec, ...]:
    """MLX's arrays never change, so that nothing is in place: each benchmark once, out of place."""
    other = [spec.name for spec in specs if spec.name not in OPERATIONS]
    if other:
        raise UsageError(
            f"--backend mlx measures messages, and {other[0]} is PyTorch's: choose collectives and send_recv with "
            "--suite, or --backend gloo"
        )
    return tuple({repr(one): one for one in (replace(spec, in_place=False) for spec in specs)}.values())


def _is_swept(spec: BenchmarkSpec) -> bool:
    """Whether all ranks work on each of its points together."""
    return spec.name in OPERATIONS and not is_matrix(spec)


def _parts(text: str) -> tuple[str, ...]:
    """Names of a comma list, each once, in the order given."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",")))


def _refusal(name: str) -> str | None:
    """Why ``--env`` may not set a variable; None when it may."""
    if name.startswith("LD_"):
        return (
            "the loader reads it when a process starts, and ranks are forked from one that runs by then; set it where "
            "Ray is started on each node"
        )
    return _OWNED.get(name)


def _check_counts(config: RunConfig) -> None:
    least = {
        "nodes": 1,
        "gpus_per_node": 1,
        "min_nodes": 1,
        "warmup": 0,
        "iters": 1,
        "blocks": 1,
        "repeats": 1,
        "max_repeats": 1,
        "root": 0,
        "master_port": 0,
        "timeout": 1,
        "keep_warm": 0,
    }
    for name, limit in least.items():
        value = getattr(config, name)
        if value is not None and not value >= limit:  # so that a timeout of nan is refused as well
            raise UsageError(f"--{name.replace('_', '-')} is {value}; it must be at least {limit}")
    for name, (limit, remark) in _MOST.items():
        value = getattr(config, name)
        if value is not None and value > limit:
            raise UsageError(f"--{name.replace('_', '-')} is {value}; it may be at most {limit}{remark}")
    if config.max_repeats is not None and config.max_repeats < config.repeats:
        raise UsageError(f"--max-repeats is {config.max_repeats}; it must be at least --repeats, {config.repeats}")
    if "://" in config.address:
        raise UsageError(
            f"--address {config.address}: Ray Client cannot place ranks on nodes; give HOST:PORT of the head, port "
            "6379 unless 'ray start' was told otherwise"
        )
    if config.master_port > 65535:
        raise UsageError(f"--master-port is {config.master_port}; ports end at 65535")


def _check_isolation(config: RunConfig) -> None:
    if config.min_nodes is not None and not config.continue_without:
        raise UsageError("--min-nodes says how many nodes --continue-without leaves at least; give that as well")
    if config.nodes is None:
        return
    if config.isolates and config.nodes < _LEAST_NODES:
        raise UsageError(nothing_to_isolate(config.nodes, 1))
    if config.min_nodes is not None and config.min_nodes > config.nodes:
        raise UsageError(f"--min-nodes is {config.min_nodes}; it may be at most --nodes, {config.nodes}")


def nothing_to_isolate(nodes: int, world_size: int) -> str:
    """Why a run of so few nodes or ranks cannot measure a suspect again."""
    ranks = f"{world_size} rank{'s' * (world_size > 1)}"
    return (
        "--isolate and --continue-without measure a suspect again with other nodes, and this run has "
        f"{nodes} node with {ranks}: leave them out, or take 2 nodes or more"
    )


def _check_names(config: RunConfig) -> None:
    names_of(config.suite)
    tracker_names(config.track)
    allowed = {
        "dtype": tuple(DTYPE_BYTES),
        "op": REDUCE_OPS,
        "placement": ("in", "out", "both"),
        "backend": (*BACKENDS, None),
    }
    for name, choices in allowed.items():
        text = getattr(config, name)
        for part in (text,) if text is None or name in ("placement", "backend") else _parts(text):
            if part not in choices:
                raise unknown_value(name, part, choices)


def load_config(path: str | None, options: Mapping[str, Any]) -> RunConfig:
    """Defaults, then the YAML file at ``path``, then ``options``.

    Raises UsageError for a file that cannot be read, is not a mapping, or has a key or a value that does not fit.
    """
    settings = {} if path is None else _read(Path(path))
    where = f"the configuration file {path}: " if path else ""
    merged = {**settings, **options}
    kinds = [name for name in merged if name not in _own_keys() and has_options(name)]
    try:
        chosen = {kind: _options(kind, settings.get(kind), options.get(kind), where) for kind in kinds}
        merged = {name: value for name, value in merged.items() if name not in kinds}
        return msgspec.convert({**merged, "options": chosen}, RunConfig)
    except msgspec.ValidationError as error:
        own = error.__cause__ if isinstance(error.__cause__, UsageError) else None  # names the option itself
        raise UsageError(f"{where}{own or error}") from error


def _options(kind: str, in_file: Any, given: Any, where: str) -> Any:
    """The options of a workload, those of the file below those given beside it."""
    workload = workload_of(kind)
    names = [field.name for field in fields(workload.options)] if workload.options else []
    parts = [_written(kind, names, content, where) for content in (in_file, given)]
    try:
        return msgspec.convert(workload.normalised({**parts[0], **parts[1]}), workload.options)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(str(error).replace("`$", f"`$.{kind}", 1)) from error.__cause__


def _written(kind: str, names: Sequence[str], content: Any, where: str) -> dict[str, Any]:
    """The options of a workload as given, with dashes or underscores."""
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        raise UsageError(f"{where}'{kind}' must hold 'key: value' lines, such as 'steps: 50'")
    options = {str(key).replace("-", "_"): value for key, value in content.items()}
    _check_keys(options, names, f"{where}'{kind}'")
    return options


def _own_keys() -> list[str]:
    """Keys of a configuration beside the options of workloads."""
    return [field.name for field in fields(RunConfig) if field.name != "options"]


def _check_keys(settings: Iterable[str], known: Sequence[str], where: str) -> None:
    for key in settings:
        if key not in known:
            raise UsageError(f"{where} has an unknown key '{key}'; {known_names(key, known)}")


def _plain_loader() -> Any:
    """YAML's safe loader, but for numbers to base 60: ``8:16:2`` are sizes, not 29 762."""
    import yaml

    class PlainLoader(yaml.SafeLoader):
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [one.value for one, _ in node.value if isinstance(one.value, str)]
            for key in keys:
                if keys.count(key) > 1:
                    raise yaml.constructor.ConstructorError(None, None, f"'{key}' is there twice", node.start_mark)
            return super().construct_mapping(node, deep=deep)

    decimal = {
        "tag:yaml.org,2002:int": r"[-+]?[0-9]+",
        "tag:yaml.org,2002:float": r"[-+]?[0-9]*\.?[0-9]+(e[-+]?[0-9]+)?",
    }
    PlainLoader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in decimal]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    for tag, pattern in decimal.items():
        PlainLoader.add_implicit_resolver(tag, re.compile(f"(?i:{pattern})$"), list("-+.0123456789"))
    return PlainLoader


def _read(path: Path) -> dict[str, Any]:
    import yaml  # only where there is a file

    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_plain_loader())  # noqa: S506 - a safe one
    except OSError as error:
        raise UsageError(f"the configuration file {path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: no UTF-8, or a number without end
        raise UsageError(f"the configuration file {path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise UsageError(f"the configuration file {path} must hold 'key: value' lines, such as 'nodes: 4'")
    settings = {str(key).replace("-", "_"): value for key, value in content.items()}
    settings |= {name: str(value) for name, value in settings.items() if name in _TEXTS and type(value) is int}
    known = [*_own_keys(), *(kind for kind in WORKLOADS if has_options(kind))]
    unknown = [name for name in settings if name not in known and not has_options(name)]
    _check_keys(unknown, known, f"the configuration file {path}")
    return settings
