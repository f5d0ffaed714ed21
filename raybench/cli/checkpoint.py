"""``raybench checkpoint``."""

import sys
from collections.abc import Mapping
from typing import Any

import click

from raybench.cli.cluster_options import PLACE_OPTIONS, RUN_OPTIONS, given, with_options
from raybench.cli.measure import measure
from raybench.cli.output import printing
from raybench.cli.usage.command import TopicCommand
from raybench.errors import ProblemFoundError, UsageError
from raybench.services.checkpoint import PLACES_TO_SAVE

EXAMPLES = """\b
Examples:
  raybench checkpoint --nodes 2 --to /scratch/checkpoints
  raybench checkpoint --to /scratch --to s3://bucket/prefix --to gs://bucket/prefix --model llama-8b
  raybench checkpoint --to s3://bucket/prefix --endpoint http://storage:9000 --compression zstd --keep-checkpoints
  raybench checkpoint --inspect s3://bucket/prefix/raybench-1f2e3d4c-1-0
"""

_OPTIONS: list[Any] = [
    click.option("--to", multiple=True, metavar="PLACE", help=f"{PLACES_TO_SAVE}; may "
                 "be repeated.  [default: checkpoints]"),
    click.option("-m", "--model", metavar="NAME", help="Model whose parameters and Adam moments are saved, as for "
                 "'raybench train'.  [default: small]"),
    click.option("--layouts", metavar="NAME,...", help="sharded: each rank its part; full: all through rank 0.  "
                 "[default: both]"),
    click.option("--modes", metavar="NAME,...", help="sync, async (training continues while it is stored).  "
                 "[default: both]"),
    click.option("--compression", metavar="NAME", help="none, zstd or zlib.  [default: none]"),
    click.option("--saves", type=int, metavar="N", help="Times each is saved and loaded.  [default: 3]"),
    click.option("--endpoint", metavar="URL", help="S3 or GCS server; else what the environment says."),
    click.option("--request-timeout", "--limit-seconds", "limit_seconds", type=float, metavar="S",
                 help="Time limit of a request to a storage.  "
                 "[default: 30]"),
    click.option("--keep-checkpoints", "--keep", "keep", is_flag=True, default=None,
                 help="Leave the checkpoints where they are."),
    click.option("--inspect", "--check", "check", metavar="PLACE",
                 help="Measure nothing: read every byte of a kept checkpoint, and say what "
                 "is wrong with it."),
]  # fmt: skip


@click.command(cls=TopicCommand, epilog=EXAMPLES)
@with_options([*PLACE_OPTIONS, *_OPTIONS, *RUN_OPTIONS])
def command(
    config_file: str | None, as_json: bool, full: bool, quiet: bool, dry_run: bool, check: str | None, **options: Any
) -> None:
    """Save and load a model that is sharded over all ranks, as training does, and check what comes back.

    Writes and reads through torch.distributed.checkpoint, in a format without pickles. What is saved is removed again.
    Writes DIR/RUN_ID as 'raybench run' does.
    """
    chosen = given(options)
    chosen |= {name: _parts(chosen[name]) for name in ("layouts", "modes") if name in chosen}
    if check is not None:
        sys.exit(_check(check, chosen, as_json=as_json))
    from raybench.services.run_config import workload_config

    config = workload_config("checkpoint", config_file, chosen)
    sys.exit(measure(config, as_json=as_json, full=full, quiet=quiet, dry_run=dry_run))


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def _check(place: str, options: Mapping[str, Any], *, as_json: bool) -> int:
    """Print whether a checkpoint is whole. Raises ProblemFoundError where it is not, UsageError where there is none."""
    import json

    from raybench.services.checkpoint import check_checkpoint

    checked = check_checkpoint(place, options)
    with printing("stdout"):
        if as_json:
            click.echo(json.dumps(checked.to_json()))
        elif checked.whole:
            click.echo(f"{place}: whole, {checked.stored_bytes} bytes match their checksums")
    if not checked.whole:
        raise (ProblemFoundError if checked.exit_code == 1 else UsageError)(checked.reason)
    return 0
