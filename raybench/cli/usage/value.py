"""What an option or an argument is completed with: its choices, names that raybench knows, hosts, results, files."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import click
from click.shell_completion import CompletionItem

# By option, what `raybench.services.completing` calls it; where commands differ, `COMMAND --option` comes first.
KNOWN_VALUES: Mapping[str, str] = MappingProxyType({
    "--model": "trained models",
    "estimate --model": "models",
    "plan model": "models",
    "--models": "trained models",
    "--suite": "suites",
    "--node-type": "node types",
    "expected --gpu": "gpus",
    "estimate --gpu": "gpus",
    "plan --gpu": "gpus",
    "--explain": "rules",
    "preflight --only": "checks",
    "check --only": "checks",
    "watch --only": "checks",
    "--skip": "checks",
    "--program": "programs",
    "--strategy": "strategies",
    "--strategies": "compared strategies",
    "--networks": "networks",
})  # fmt: skip
# Where there is no table but this: the values as the options take them.
WORDS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "--backend": ("nccl", "gloo", "mlx"),
    "--address": ("auto", "local"),
    "--dtype": ("bf16", "fp16", "fp32"),
    "run --dtype": ("float32", "float16", "bfloat16", "float64", "int8", "uint8", "int32", "int64"),
    "train --dtype": ("bf16", "fp16", "fp32", "fp8"),
    "--op": ("sum", "prod", "min", "max", "avg"),
    "--placement": ("in", "out", "both"),
    "--optimizer": ("adamw", "adam", "sgd"),
    "--sharding": ("full", "grad-op", "hybrid"),
    "--adapter": ("own", "peft"),
    "--comm-hooks": ("none", "fp16", "bf16", "powersgd"),
    "--algorithms": ("ring", "tree"),
    "--comm-hook": ("none", "fp16", "bf16", "powersgd"),
    "--lr-schedule": ("constant", "cosine", "linear"),
    "--layouts": ("sharded", "full"),
    "--modes": ("sync", "async"),
    "--compression": ("none", "zstd", "zlib"),
    "--form": ("pods", "rayjob"),
    "--currency": ("USD", "EUR", "GBP"),
})  # fmt: skip
_HOSTS = ("--limit", "--group")
_RESULTS = {"results", "run", "runs", "result", "baseline", "places"}  # arguments
_RESULT_OPTIONS = ("--resume", "--baseline", "--result")
_FILES = {"FILE": "file", "PATH": "file", "FILE...": "file", "PATH...": "file", "DIR": "dir", "PREFLIGHT": "file"}


def completing(parameter: click.Parameter) -> None:
    """Have a parameter complete its values so, unless its own type does."""
    if isinstance(parameter.type, click.Choice) or (isinstance(parameter, click.Option) and parameter.is_flag):
        return

    def complete(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return values_of(ctx, parameter, incomplete)

    parameter.shell_complete = complete  # type: ignore[method-assign]


def values_of(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What may follow. Nothing is contacted; what cannot be read offers nothing."""
    names = parameter.opts if isinstance(parameter, click.Option) else [str(parameter.name)]
    keys = [key for name in names for key in (f"{context.info_name} {name}", name)]
    if known := next((KNOWN_VALUES[key] for key in keys if key in KNOWN_VALUES), None):
        from raybench.services.completing.known import KNOWN

        return _of_list(KNOWN[known](), parameter, incomplete)
    if words := next((WORDS[key] for key in keys if key in WORDS), None):
        return _of_list(words, parameter, incomplete)
    if any(name in _HOSTS for name in names):
        return _hosts(context, incomplete)
    kind = _FILES.get(str(parameter.metavar)) or ("file" if isinstance(parameter.type, click.Path) else "")
    files = [CompletionItem(incomplete, type=kind)] if kind else []
    if any(name in _RESULT_OPTIONS for name in names) or (
        isinstance(parameter, click.Argument) and parameter.name in _RESULTS
    ):
        from raybench.services.completing.place import result_folders

        return _beginning(result_folders(incomplete), incomplete) or files
    return files


def _of_list(words: Iterable[str], parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The last of ``a,b,c`` where a parameter takes a list: `,...` in its metavar."""
    before, comma, last = incomplete.rpartition(",")
    if ",..." not in str(parameter.metavar) or not comma:
        before, comma, last = "", "", incomplete
    given = set(before.split(","))
    return [CompletionItem(f"{before}{comma}{word}") for word in words if word.startswith(last) and word not in given]


def _hosts(context: click.Context, incomplete: str) -> list[CompletionItem]:
    """Of the inventories that were typed before, else of the file that `raybench init` writes."""
    from raybench.services.completing.place import inventory_names

    typed = context.params.get("inventory") or context.params.get("inventories") or ("hosts.yml",)
    return _beginning(dict.fromkeys(inventory_names(typed)), incomplete)


def _beginning(words: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]
