"""``raybench checkpoint``."""

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from raybench.benchmarks.checkpoint.options import CheckpointOptions
from raybench.benchmarks.checkpoint.stores import PLACES
from raybench.cli.cluster_options import PLACE_OPTIONS, RUN_OPTIONS, given, with_options
from raybench.cli.measure import measure
from raybench.config import load_config
from raybench.errors import ProblemFoundError, UsageError

EXAMPLES = """\b
Examples:
  raybench checkpoint --nodes 2 --to /scratch/checkpoints
  raybench checkpoint --to /scratch --to s3://bucket/prefix --to gs://bucket/prefix --model llama-8b
  raybench checkpoint --to s3://bucket/prefix --endpoint http://storage:9000 --compression zstd --keep
  raybench checkpoint --check s3://bucket/prefix/raybench-1f2e3d4c-1-0
"""

_OPTIONS: list[Any] = [
    click.option("--to", multiple=True, metavar="PLACE", help=f"{PLACES[0].upper()}{PLACES[1:]}; may "
                 "be repeated.  [default: checkpoints]"),
    click.option("-m", "--model", metavar="NAME", help="Model whose parameters and Adam moments are saved, as for "
                 "'raybench train'.  [default: small]"),
    click.option("--layouts", metavar="NAME,...", help="sharded: each rank its part; full: all through rank 0.  "
                 "[default: both]"),
    click.option("--modes", metavar="NAME,...", help="sync, async (training goes on while it is stored).  "
                 "[default: both]"),
    click.option("--compression", metavar="NAME", help="none, zstd or zlib.  [default: none]"),
    click.option("--saves", type=int, metavar="N", help="Times each is saved and loaded.  [default: 3]"),
    click.option("--endpoint", metavar="URL", help="S3 or GCS server; else what the environment says."),
    click.option("--limit-seconds", type=float, metavar="S", help="Time limit of a request to a storage.  "
                 "[default: 30]"),
    click.option("--keep", is_flag=True, default=None, help="Leave the checkpoints where they are."),
    click.option("--check", metavar="PLACE", help="Measure nothing: read every byte of a kept checkpoint, and say what "
                 "is wrong with it."),
]  # fmt: skip


@click.command(epilog=EXAMPLES)
@with_options([*PLACE_OPTIONS, *_OPTIONS, *RUN_OPTIONS])
def command(
    config_file: str | None, as_json: bool, full: bool, quiet: bool, dry_run: bool, check: str | None, **options: Any
) -> None:
    """Save and load a model that is sharded over all ranks, as training does, and check what comes back.

    Writes and reads through torch.distributed.checkpoint, in a format without pickles. What is saved is removed again.
    Writes DIR/RUN_ID as 'raybench run' does.
    """
    written = given(options)
    own = {field.name for field in fields(CheckpointOptions)}
    settings = {name: value for name, value in written.items() if name not in own}
    chosen = {name: value for name, value in written.items() if name in own}
    chosen |= {name: _parts(chosen[name]) for name in ("layouts", "modes") if name in chosen}
    if check is not None and not check.strip():
        raise UsageError("--check is empty; write the folder of a kept checkpoint, or s3://bucket/prefix/NAME")
    if check is not None:
        sys.exit(_check(check, CheckpointOptions(**{**chosen, "to": (check,)}), as_json=as_json))
    config = load_config(config_file, {**settings, "suite": "checkpoint", "checkpoint": chosen})
    sys.exit(measure(config, as_json=as_json, full=full, quiet=quiet, dry_run=dry_run))


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def _divided(place: str) -> tuple[str, str]:
    """The place that holds a checkpoint, and its folder there. Raises UsageError where a bucket is all there is."""
    scheme, separator, rest = place.partition("://")
    above, slash, folder = (rest if separator else place).rstrip("/").rpartition("/")
    if separator and scheme != "file":
        if not above:
            raise UsageError(f"--check {place} names no checkpoint in the bucket; write {place.rstrip('/')}/NAME")
        return f"{scheme}://{above}", folder
    return above or slash or ".", folder


def _look_for(place: str) -> None:
    """Raises UsageError where no checkpoint was ever begun: what is not there cannot be damaged."""
    scheme, separator, rest = place.partition("://")
    if separator and scheme != "file":
        return
    folder = Path(rest if separator else place)
    if not folder.is_dir():
        raise UsageError(f"--check {place}: there is no such folder; name one that --keep left, with its own name")
    if not any(folder.glob("rank-*.bin")) and not (folder / "manifest.json").exists():
        raise UsageError(f"--check {place}: this folder holds no checkpoint; name one that --keep left in it")


def _check(place: str, options: CheckpointOptions, *, as_json: bool) -> int:
    """Say whether a checkpoint is whole. Raises ProblemFoundError where it is not, UsageError where there is none."""
    import json

    from raybench.benchmarks.checkpoint.manifest import CheckpointError
    from raybench.benchmarks.checkpoint.storage import check_checkpoint  # imports torch
    from raybench.benchmarks.checkpoint.stores import open_store
    from raybench.benchmarks.checkpoint.stores.store import StoreError

    above, folder = _divided(place)
    try:
        _look_for(place)
        store = open_store(above, endpoint=options.endpoint, limit_seconds=options.limit_seconds)
        stored = check_checkpoint(store, folder)
    except (CheckpointError, StoreError, UsageError) as error:
        if as_json:
            click.echo(json.dumps({"place": place, "whole": False, "reason": str(error)}))
        if isinstance(error, CheckpointError):
            raise ProblemFoundError(str(error)) from error
        raise UsageError(str(error)) from error
    whole = {"place": place, "whole": True, "stored_bytes": stored}
    click.echo(json.dumps(whole) if as_json else f"{place}: whole, {stored} bytes match their checksums")
    return 0
