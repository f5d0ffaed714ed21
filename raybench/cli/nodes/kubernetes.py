"""``raybench nodes kubernetes``."""

import json
import sys
from pathlib import Path
from typing import Any

import click

from raybench.cli.nodes.options import AS_JSON, MAX_AGE, REPORT, acting, end, print_text, show_actions
from raybench.cli.usage.command import TopicCommand

EXAMPLES = """\b
Examples:
  raybench nodes kubernetes preflight.json                 a dry run: kubectl's commands, and why
  raybench nodes kubernetes preflight.json --patches       the same as JSON patches
  raybench nodes kubernetes preflight.json --apply

kubectl takes its cluster from KUBECONFIG. Pods that shall run on such a node all the same tolerate the taint
raybench/drain. No pod is evicted: 'kubectl drain' does that.
"""


@click.command("kubernetes", cls=TopicCommand, epilog=EXAMPLES)
@REPORT
@acting
@MAX_AGE
@AS_JSON
@click.option("--patches", "as_patches", is_flag=True, help="Print JSON patches (RFC 6902) of nodes and their status.")
def command(report: Path, max_age_minutes: float, as_json: bool, as_patches: bool, **options: Any) -> None:
    """Keep pods from nodes that preflight calls drain, by a taint of raybench's own, and label all by their state.

    Each node also gets the condition RaybenchDrain. Only raybench's own taint is ever taken away.
    """
    from raybench.services.nodes.judged import ActOptions, read_report  # not needed for --help
    from raybench.services.nodes.kubernetes import act, patches

    chosen, found = ActOptions(max_age_seconds=60 * max_age_minutes, **options), read_report(report)
    if as_patches:
        if chosen.apply:
            raise click.UsageError("--patches prints, and --apply applies by kubectl: give one of them")
        print_text(json.dumps(patches(found, chosen), indent=1) + "\n")
        sys.exit(0)
    actions = act(found, chosen)
    show_actions(actions, as_json=as_json)
    end(actions)
