"""``raybench completion``: the script that makes a shell complete raybench."""

import click

from raybench.cli.output import printing
from raybench.cli.usage.command import TopicCommand

EXAMPLES = """\b
Examples:
  raybench completion bash > ~/.local/share/bash-completion/completions/raybench
  raybench completion zsh > ~/.zfunc/_raybench       # with fpath+=~/.zfunc
  raybench completion fish > ~/.config/fish/completions/raybench.fish
  eval "$(raybench completion bash)"                 # this shell alone
"""


@click.command(cls=TopicCommand, epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the script by which bash, zsh or fish completes commands, options and their values.

    Values are those that an option takes: models, suites, node types, rules, strategies; hosts and groups of the
    inventory that -i names; folders of results. Nothing is contacted.
    """
    from click.shell_completion import get_completion_class

    from raybench.cli import group

    found = get_completion_class(shell)
    if found is None:  # the choices are those of click
        raise click.UsageError(f"there is no completion for {shell}")
    with printing("stdout"):
        click.echo(found(group, {}, "raybench", "_RAYBENCH_COMPLETE").source())
