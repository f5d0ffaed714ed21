"""``raybench run``."""

import sys
from typing import Any

import click

from raybench.cli.cluster_options import PLACE_OPTIONS, RUN_OPTIONS, given, with_options
from raybench.cli.measure import measure
from raybench.cli.usage.command import TopicCommand
from raybench.config import load_config

EXAMPLES = """\b
Examples:
  raybench run --nodes 2                          two emulated nodes on this machine
  raybench run --nodes 10 --address head:6379     ten nodes of a running Ray cluster
  raybench run --suite all_reduce --sizes 8:8G:2 --repeats 5
  raybench run --suite all                        collectives, ddp and fsdp, memory, checkpoint
  raybench run --suite all_reduce,p2p_matrix --dtype bfloat16 --env NCCL_ALGO=Ring
  raybench run --baseline runs/20261121-014502-3f9a   is it still as fast as then?
  raybench run --nodes 8 --isolate                prove or withdraw what it says of a slow node
  raybench run --nodes 8 --continue-without       and go on without a node that is at fault
  raybench run --config run.yml --json > result.json
"""

_OPTIONS: list[Any] = [
    click.option("--suite", metavar="NAME,...", help="Benchmarks or suites: collectives, quick, p2p, training, all, "
                 "all_reduce, ...  [default: collectives]"),
    click.option("-b", "--sizes", metavar="BEGIN:END:FACTOR", help="Message sizes, such as 8:256M:2, 1M:8M:+1M or "
                 "4K,1M.  [default: 8:8G:2 with nccl, 1K:16M:4 with others]"),
    click.option("--p2p-size", metavar="SIZE", help="Message size of the p2p matrix.  [default: 4M]"),
    click.option("-d", "--dtype", metavar="TYPE,...", help="float32, float16, bfloat16, float64, int8, uint8, int32, "
                 "int64.  [default: float32]"),
    click.option("-o", "--op", metavar="OP,...", help="Reductions: sum, prod, min, max, avg.  [default: sum]"),
    click.option("--root", type=int, metavar="RANK", help="Root of broadcast, reduce, gather, scatter.  [default: 0]"),
    click.option("--placement", metavar="in|out|both", help="In place, out of place, or both where both exist.  "
                 "[default: both]"),
    click.option("-w", "--warmup", type=int, metavar="W", help="Untimed operations before each size.  [default: 5]"),
    click.option("-n", "--iters", type=int, metavar="I", help="Operations in a block.  [default: about 50 ms of them, "
                 "at most 50]"),
    click.option("--blocks", type=int, metavar="B", help="Blocks a size; the interval is over them.  [default: 5]"),
    click.option("--baseline", metavar="FILE", help="result.json, or the folder, of an earlier, healthy run of this "
                 "cluster: a collective below 94 % of it is a problem (exit code 1)."),
    click.option("--isolate", is_flag=True, default=None, help="Where the run accuses a node, a rank or a path, "
                 "measure that again at once with healthy partners, and these without it: it is confirmed, not "
                 "confirmed, or a path. Costs nothing where nobody is accused, else at most 3 minutes and one more "
                 "measurement."),
    click.option("--continue-without", is_flag=True, default=None, help="Begin again without a node that was lost, or "
                 "that is confirmed: implies --isolate. The result says so, and is a problem (exit code 1)."),
    click.option("--min-nodes", type=int, metavar="N", help="Nodes that --continue-without leaves at least.  "
                 "[default: 2]"),
]  # fmt: skip


@click.command(cls=TopicCommand, epilog=EXAMPLES)
@with_options([*PLACE_OPTIONS, *_OPTIONS, *RUN_OPTIONS])
def command(config_file: str | None, as_json: bool, full: bool, quiet: bool, dry_run: bool, **options: Any) -> None:
    """Measure and verify collectives, one rank per GPU, over a Ray cluster.

    Without a cluster to join, one is embedded on this machine: real Ray nodes and ranks, EMULATED machines. Writes
    DIR/RUN_ID with result.json, result.csv, report.html, samples.jsonl and logs/.
    """
    config = load_config(config_file, given(options))
    sys.exit(measure(config, as_json=as_json, full=full, quiet=quiet, dry_run=dry_run))
