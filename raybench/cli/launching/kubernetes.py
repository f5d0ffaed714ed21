"""``raybench launch kubernetes``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from raybench.cli.launching.words import LaunchCommand, launched_words
from raybench.cli.output import say

if TYPE_CHECKING:
    from raybench.services.launching.kubernetes import Launched

EXAMPLES = """\b
Examples:
  raybench launch kubernetes --image registry.example/raybench:1 --nodes 4 --gpus-per-node 8 -- run --suite all_reduce
  raybench launch kubernetes --image registry.example/raybench:1 --nodes 4 --gpus-per-node 8
      --resource rdma/rdma_shared_device_a=1 --queue gpu-queue --toleration nvidia.com/gpu -- train --model gpt2
  raybench launch kubernetes --image registry.example/raybench:1 --form rayjob --dry-run -- run       the manifests
  raybench launch kubernetes --image registry.example/raybench:1 --fetch raybench-3f9a21              results of a job

The image is built by deploy/Dockerfile. Without --form rayjob no Ray and no operator is needed. Ctrl-C has the run
end in order: what was measured is kept. Exit codes are those of the command.
"""
_OPTIONS: list[Any] = [
    click.option("--image", required=True, metavar="NAME", help="Image that has raybench, by deploy/Dockerfile."),
    click.option("--form", default="pods", show_default=True, metavar="pods|rayjob",
                 help="An Indexed Job of torchrun, or a RayJob of KubeRay."),
    click.option("--nodes", type=int, default=1, show_default=True, metavar="N", help="Pods, a node each."),
    click.option("--gpus-per-node", type=int, default=0, show_default=True, metavar="G",
                 help="GPUs of each pod, a rank each; 0 measures between CPUs, one rank a pod."),
    click.option("--gpu-resource", default="nvidia.com/gpu", show_default=True, metavar="NAME",
                 help="What the device plugin calls a GPU, such as amd.com/gpu."),
    click.option("--resource", "resources", multiple=True, metavar="NAME=QUANTITY",
                 help="Of each pod, such as rdma/rdma_shared_device_a=1, cpu=64, memory=512Gi. May be repeated."),
    click.option("--shm", metavar="SIZE", help="Shared memory of each pod.  [default: 2 GiB a rank, 4 GiB at least]"),
    click.option("--toleration", "tolerations", multiple=True, metavar="KEY[=VALUE][:EFFECT]",
                 help="Taint that the pods tolerate. May be repeated."),
    click.option("--node-selector", "selectors", multiple=True, metavar="LABEL=VALUE",
                 help="Label that the nodes must have. May be repeated."),
    click.option("--queue", metavar="NAME", help="LocalQueue of Kueue that admits the job."),
    click.option("--image-pull-secret", "pull_secret", metavar="NAME", help="Secret of the registry."),
    click.option("--host-network", is_flag=True, help="The nodes' own network, as RoCE without a CNI plugin needs it."),
    click.option("--namespace", metavar="NAME", help="[default: that of kubectl's context]"),
    click.option("--job-name", "--name", "name", default="raybench", show_default=True, metavar="NAME",
                 help="Begin of the job's name."),
    click.option("--time-limit", "time_limit_seconds", type=int, default=4 * 3600, show_default=True, metavar="S",
                 help="After so many seconds Kubernetes ends the job."),
    click.option("--output-dir", default="runs", show_default=True, metavar="DIR",
                 help="Results go to DIR/kubernetes-JOB."),
    click.option("--wait/--no-wait", default=True, show_default=True, help="Follow the job until it has ended."),
    click.option("--fetch", metavar="JOB", help="Bring log and results of a job of before, and start nothing."),
    click.option("--dry-run", is_flag=True, help="Print the manifests, and create nothing."),
]  # fmt: skip


def _with_options(command: Any) -> Any:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command("kubernetes", cls=LaunchCommand, epilog=EXAMPLES, options_metavar="[OPTIONS] -- COMMAND")
@_with_options
@click.pass_context
def command(
    context: click.Context, /, output_dir: str, wait: bool, fetch: str | None, dry_run: bool, **given: Any
) -> None:
    """Run a command of raybench in pods: an Indexed Job of torchrun, or a RayJob of KubeRay."""
    from raybench.services.launching.kubernetes import bring_home, planned, submit

    request = _request(given)
    if fetch is not None:
        _finish(bring_home(request, fetch, Path(output_dir), None))
    words = launched_words(context)
    if dry_run:
        click.echo(planned(request, words), nl=False)
        return
    job = submit(request, words)
    if not wait:
        click.echo(job)
        return
    say(f"raybench: job {job} is created")
    _finish(_followed(request, job, Path(output_dir)))


def _request(given: dict[str, Any]) -> Any:
    from raybench.services.launching.kubernetes import KubernetesRequest, pairs, shm_of

    resources, selectors = given.pop("resources"), given.pop("selectors")
    return KubernetesRequest(
        resources=pairs("resource", resources),
        node_selector=pairs("node-selector", selectors),
        shm_bytes=shm_of(given.pop("shm")),
        **given,
    )


def _followed(request: Any, job: str, output_dir: Path) -> "Launched":
    from raybench.processes.interrupt import Interrupt
    from raybench.services.launching.kubernetes import follow

    with Interrupt().installed() as interrupt, interrupt.counting():
        return follow(
            request, job, interrupt=interrupt, say=lambda text: say(f"raybench: {text}"), output_dir=output_dir
        )


def _finish(launched: "Launched") -> None:
    from raybench.cli.show import show_text

    for folder in launched.results:
        show_text(folder)
    if launched.reason:
        say(f"raybench: {launched.reason}")
    sys.exit(launched.exit_code)
