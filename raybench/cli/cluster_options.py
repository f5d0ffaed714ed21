"""Options that many commands have: where a run is done, how often, where its result goes; how long hosts may take."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])

LOGIN_LIMIT = (
    "Give a host up that has not let raybench log in after so many seconds, and say where its login hangs.  "
    "[default: 60]"
)
UP_TO_A_DAY = click.FloatRange(1, 86400)  # seconds
PLACE_OPTIONS: list[Any] = [
    click.option("--nodes", type=int, metavar="N", help="Nodes to use.  [default: all of the cluster; 1 embedded]"),
    click.option("--gpus-per-node", type=int, metavar="G", help="Ranks a node, one per GPU.  [default: all GPUs]"),
]  # fmt: skip

RUN_OPTIONS: list[Any] = [
    click.option("--repeats", type=int, metavar="R", help="Launches of fresh rank processes; gives mean and spread "
                 "over them.  [default: 1]"),
    click.option("--max-repeats", type=int, metavar="R", help="Most launches, after pauses, where those of --repeats "
                 "lie too far apart to tell a run that is 5 % slower.  [default: 3 times --repeats]"),
    click.option("--timeout", type=float, metavar="S", help="Time limit of one benchmark, seconds.  [default: 300]"),
    click.option("--backend", metavar="nccl|gloo|mlx", help="mlx: messages over MLX's ring.  [default: nccl where "
                 "there are GPUs, else gloo]"),
    click.option("--address", metavar="auto|local|HOST:PORT", help="Ray cluster to join; local embeds one here; auto "
                 "takes RAY_ADDRESS, then a running one, then an embedded one.  [default: auto]"),
    click.option("--master-port", type=int, metavar="PORT", help="Rendezvous port on the first node.  [default: free]"),
    click.option("--env", multiple=True, metavar="NAME[=VALUE]", help="Variable of every rank; NAME alone takes this "
                 "shell's value. NCCL_* of this shell are passed on as they are. May be repeated."),
    click.option("--output-dir", metavar="DIR", help="Where the run's folder is made.  [default: runs]"),
    click.option("--log-limit", metavar="SIZE", help="Longest NCCL log of a rank; above 64M the longest trace, too.  "
                 "[default: 16M]"),
    click.option("--verify/--no-verify", default=None, help="Check each size exactly.  [default: on]"),
    click.option("--allow-mixed", is_flag=True, default=None, help="Measure even where versions differ."),
    click.option("--keep-warm", type=float, metavar="S", help="Leave idle node actors in a joined cluster for so "
                 "long, with torch imported, so that the next run of the same shape starts at once.  [default: 0]"),
    click.option("--agent/--no-agent", default=None, help="Have the diagnostics agent watch each machine beside the "
                 "ranks: ports, GPUs, processors, logs.  [default: on]"),
    click.option("--track", multiple=True, metavar="NAME,...", help="Experiment trackers that hear of the run while it "
                 "goes on: tensorboard, mlflow, wandb, comet. They are set up by their own variables; one that fails "
                 "costs nothing."),
    click.option("--config", "config_file", metavar="FILE", help="YAML with any of these, such as 'nodes: 4'; options "
                 "win over it."),
    click.option("--json", "as_json", is_flag=True, help="Print result.json on standard output instead of the table."),
    click.option("--full", is_flag=True, help="Print every table; they are in the report in any case."),
    click.option("--dry-run", is_flag=True, help="Check the options and what they need, and measure nothing."),
    click.option("-q", "--quiet", is_flag=True, help="No progress."),
]  # fmt: skip


def with_options(options: Sequence[Any]) -> Callable[[Function], Function]:
    """A decorator that gives a command these options, in this order."""

    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were written on the command line."""
    return {name: value for name, value in options.items() if value is not None and value != ()}


def time_limit(default_seconds: float, help_text: str) -> Callable[[Function], Function]:
    """``--timeout`` of a command that asks hosts: from a second to a day."""
    return click.option(
        "--timeout", "timeout_seconds", type=UP_TO_A_DAY, default=default_seconds, show_default=True, metavar="S",
        help=help_text,
    )  # fmt: skip


def host_time_limit(help_text: str) -> Callable[[Function], Function]:
    """``--host-timeout``: likewise, of each host; None where it is not given."""
    return click.option("--host-timeout", "host_timeout_seconds", type=UP_TO_A_DAY, metavar="S", help=help_text)
