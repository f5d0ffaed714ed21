"""The command line: parse, call one function a command, turn errors into messages and exit codes.

Commands live in one module each and are imported only when they are called, so that ``raybench --help`` costs neither
Ray nor torch nor Ansible. The tables below are the list of commands, and the groups that the help shows.
"""

import errno
import importlib
import signal
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from raybench.cli.output import is_output_lost, open_closed_streams, printing, say
from raybench.cli.usage.command import TopicGroup
from raybench.processes.lost_interrupt import send_lost_interrupts_again
from raybench.version import __version__

# name -> (module, the line shown by `raybench --help`); the module holds a click command called `command`
COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("raybench.cli.init", "Write a first inventory of your hosts."),
    "selftest": ("raybench.cli.selftest", "Prove that driver, CUDA, NCCL, torch and Ray work here."),
    "preflight": ("raybench.cli.preflight", "Check hosts before anything is measured on them."),
    "nodes": ("raybench.cli.nodes.group", "Tell Slurm, Kubernetes, Prometheus which nodes are bad."),
    "configure": ("raybench.cli.configure", "Bring nodes into the state that training needs, and back."),
    "fabric": ("raybench.cli.fabric", "Measure the network between hosts; name what is at fault."),
    "cluster": ("raybench.cli.cluster", "Bring up Ray over an inventory, look at it, take it down."),
    "run": ("raybench.cli.run", "Measure and verify collectives, one rank per GPU."),
    "train": ("raybench.cli.train", "Train a model: step time, MFU, what waits for the network."),
    "memory": ("raybench.cli.memory", "Memory of training, and the largest batch that fits."),
    "checkpoint": (
        "raybench.cli.checkpoint",
        "Save and load a sharded model: time, GB/s, checked.",
    ),
    "study": ("raybench.cli.study", "Compare networks, node counts, strategies, batches, models."),
    "launch": ("raybench.cli.launching.group", "Hand a run, a training or a study to a scheduler."),
    "slurm": ("raybench.cli.launching.slurm_jobs", "Read what jobs of Slurm left in their outputs."),
    "top": ("raybench.cli.top", "Watch a run that goes on in another terminal."),
    "show": ("raybench.cli.show", "Show a run that was measured before, in any format."),
    "compare": ("raybench.cli.comparing.compare", "Compare results: faster, slower, no difference, cannot tell."),
    "baseline": (
        "raybench.cli.comparing.baseline",
        "Keep what healthy runs reach, and check later ones.",
    ),
    "history": ("raybench.cli.comparing.history", "Follow each figure over all runs of a folder."),
    "samples": ("raybench.cli.samples", "Give a run samples that DCGM or Prometheus took."),
    "collect": ("raybench.cli.collect", "Fetch logs and facts of hosts, and say what they prove."),
    "agent": ("raybench.cli.agent", "Watch this node while something runs on it, and warn."),
    "diagnose": ("raybench.cli.diagnose", "Say what an NCCL log proves, why, and what to do."),
    "estimate": ("raybench.cli.estimate", "Estimate communication, memory, time and cost."),
    "plan": ("raybench.cli.planning.plan", "Plan a training: what fits, how long, what it costs."),
    "completion": ("raybench.cli.usage.completion", "Have bash, zsh or fish complete what you type."),
    "expected": ("raybench.cli.expected", "Say what bandwidth a healthy system reaches, and why."),
}

# How `raybench --help` groups them; each command stands in one group.
GROUPS: dict[str, tuple[str, ...]] = {
    "Before anything runs": (
        "init",
        "selftest",
        "preflight",
        "configure",
        "nodes",
        "plan",
        "estimate",
        "expected",
        "completion",
    ),
    "Measure": ("cluster", "fabric", "run", "train", "memory", "checkpoint", "study", "launch"),
    "While it runs, and after it failed": ("top", "agent", "diagnose", "collect", "slurm"),
    "Results": ("show", "compare", "baseline", "history", "samples"),
}


_MOST_SHOWN = 200  # characters of a name


class LazyGroup(TopicGroup):
    """A group whose commands, those of its ``table``, are imported when they are called."""

    table: Mapping[str, tuple[str, str]] = COMMANDS

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands, in the order shown."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name; None when there is none."""
        if cmd_name == "help" and self.table is COMMANDS:
            return _help_command()
        if cmd_name not in self.table:
            return None
        command: click.Command = importlib.import_module(self.table[cmd_name][0]).command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands of the table, without importing any."""
        named = [
            CompletionItem(name, help=line) for name, (_, line) in self.table.items() if name.startswith(incomplete)
        ]
        return named or click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing any."""
        groups: Mapping[str, Collection[str]] = GROUPS if self.table is COMMANDS else {"Commands": self.table}
        width = max(map(len, self.table))
        for title, names in groups.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", self.table[name][1]) for name in names])


def _help_command() -> click.Command:
    """``raybench help run``, for those who type it: the same as ``raybench run --help``."""

    @click.command("help", add_help_option=False)
    @click.argument("words", nargs=-1, metavar="[COMMAND]...")
    def show_help(words: tuple[str, ...]) -> None:
        group.main([*words, "--help"], prog_name="raybench", standalone_mode=False)

    return show_help


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Start here:
  raybench run --nodes 2               this machine alone: two emulated nodes
  raybench init gpu-01 gpu-02 ...      a cluster; then preflight -i hosts.yml
  raybench diagnose nccl_debug.log     a log that you have

Exit codes: 0 clean, 1 a problem, 2 invalid usage or input, 3 incomplete or unknown.""",
)
@click.version_option(__version__, "-V", "--version", prog_name="raybench")
def group() -> None:
    """Is this GPU cluster healthy, does training get its network, and what to do?"""


def main() -> None:
    """Entry point of the console script. Never shows a traceback for an error of ours."""
    open_closed_streams()
    send_lost_interrupts_again()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _interrupt)  # ends a command in order
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:  # inherited; the kernel then keeps how a child ended
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    status = _run_command()
    for name in ("stdout", "stderr"):
        with printing(name):
            pass  # what is still to be written
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # Python gives handlers back as it ends: one more Ctrl-C would kill it
    sys.exit(2 if status == 0 and is_output_lost() else status)


def _too_long(name: str, words: Sequence[str]) -> str:
    """That a file's name is too long, with the option that gave it where one did, and what to do."""
    end = next((at for at, word in enumerate(words) if name in (word, word.partition("=")[2])), 0)
    option = next((word.partition("=")[0] for word in words[max(0, end - 1) : end + 1] if word.startswith("-")), "")
    lead = f"{option} " if option else ""
    return f"{lead}'{name[:_MOST_SHOWN]}' is longer than the name of any file; give the path of a file"


class _Interrupted(KeyboardInterrupt):
    """A class of its own: Python kills itself at its end where a bare one came up in an ``exec``, caught or not."""


def _interrupt(*_: object) -> NoReturn:
    raise _Interrupted


def _run_command() -> int:
    from raybench.errors import RaybenchError

    try:
        group.main(prog_name="raybench", standalone_mode=False)
    except SystemExit as end:
        return int(end.code or 0)
    except click.ClickException as error:
        from raybench.cli.hints import explained

        with printing("stderr"):
            explained(error, sys.argv[1:]).show()
        return 2
    except (click.exceptions.Abort, KeyboardInterrupt):
        say("raybench: stopped")
        return 3
    except RaybenchError as error:
        say(f"raybench: {error}")
        return error.exit_code
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        say(f"raybench: {_too_long(str(error.filename), sys.argv[1:])}")
        return 2
    return 0
