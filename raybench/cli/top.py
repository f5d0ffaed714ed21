"""``raybench top``."""

import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from raybench.cli.output import printing, say
from raybench.cli.usage.command import TopicCommand

if TYPE_CHECKING:
    from raybench.documents.live_hosts import LiveHosts
    from raybench.documents.live_run import LiveRun

EXAMPLES = """\b
Examples:
  raybench top                              the latest run below ./runs, until it ends
  raybench top runs/20261123-021500-3f9a
  raybench top --once --json                as data, once
  raybench top gpu-01 gpu-02 root@gpu-03    hosts of other jobs, by an agent on each, over SSH
"""
_PERIOD_SECONDS = 1.0


@click.command(cls=TopicCommand, epilog=EXAMPLES)
@click.argument("places", nargs=-1, metavar="[RUN|HOST...]")
@click.option("--once", is_flag=True, help="Print one screen and end.")
@click.option("--json", "as_json", is_flag=True, help="Print live.json; without --once a line each second.")
@click.option("--ssh-config", type=click.Path(dir_okay=False, path_type=Path), help="For hosts; else ~/.ssh/config.")
@click.option("--accept-new", is_flag=True, help="Note the keys of hosts that are not in known_hosts.")
def command(places: tuple[str, ...], once: bool, as_json: bool, ssh_config: Path | None, accept_new: bool) -> None:
    """Watch a run that goes on in another terminal, or hosts: ranks, progress, machines and warnings.

    RUN is its folder, or the folder of all runs: then the latest is shown. Nothing of the run is touched. A HOST is a
    name that is no folder here, shown by its agent: that of the unit raybench-agent, else one that ends with this.

    Exit code 3: --once found nothing new of the run, so it was killed, is stopped, or its disk is full; or not all
    hosts could be read. 1: --once saw a host with a warning.
    """
    if any(_is_host(place) for place in places) or len(places) > 1:
        sys.exit(_watch_hosts(places, once=once, as_json=as_json, ssh_config=ssh_config, accept_new=accept_new))
    _watch_run(Path(places[0] if places else "runs"), once=once, as_json=as_json)


def _is_host(place: str) -> bool:
    return "/" not in place and place not in {".", "..", "runs"} and not Path(place).exists()


def _watch_hosts(
    names: tuple[str, ...], *, once: bool, as_json: bool, ssh_config: Path | None, accept_new: bool
) -> int:
    from raybench.reports.terminal.top_hosts import is_read
    from raybench.services.top_hosts import LIMIT_SECONDS, watched_hosts

    with (
        contextlib.suppress(KeyboardInterrupt),
        watched_hosts(names, ssh_config=ssh_config, accept_new=accept_new) as watched,
    ):
        deadline = time.monotonic() + LIMIT_SECONDS + _PERIOD_SECONDS
        while True:
            time.sleep(_PERIOD_SECONDS)
            hosts = watched.state()
            settled = all(one.state == "lost" or is_read(one) for one in hosts.hosts)
            if once and not settled and time.monotonic() < deadline:
                continue
            if not _hosts_shown(hosts, as_json=as_json, again=not once):
                return 0
            if once:
                return 1 if watched.has_warned else 0 if all(is_read(one) for one in hosts.hosts) else 3
    return 3 if once else 0  # Ctrl-C: --once has not looked at all of them


def _hosts_shown(hosts: "LiveHosts", *, as_json: bool, again: bool) -> bool:
    """Show them. Returns whether anybody reads it."""
    import msgspec

    from raybench.reports.terminal.top_hosts import top_hosts_lines

    read = False
    with printing("stdout"):
        if not as_json and again and sys.stdout.isatty():
            click.clear()
        click.echo(msgspec.json.encode(hosts) if as_json else "\n".join(top_hosts_lines(hosts)))
        sys.stdout.flush()
        read = True
    return read  # noqa: RET504 - `printing` keeps back what a stream raises


def _watch_run(run: Path, *, once: bool, as_json: bool) -> None:
    from raybench.errors import UsageError
    from raybench.reports.terminal.top import is_stale
    from raybench.services.top import live_folder, live_run

    folder, age, live = live_folder(run), _Age(), None
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            try:
                live = live_run(folder)
            except UsageError:
                if live is None:
                    raise
                say(f"raybench: the run has ended: raybench show {folder}")
                break
            silent = age.of(live)
            if once and age.is_first and is_stale(live, silent):  # by the clock of another machine, maybe
                time.sleep(_PERIOD_SECONDS + live.period_seconds)
                continue
            if not _shown(live, silent, as_json=as_json, again=not once) or once:
                break
            time.sleep(_PERIOD_SECONDS)
    sys.exit(3 if once and live is not None and is_stale(live, silent) else 0)


class _Age:
    """How old is what is shown: by the wall clock at first, and from then on by when it changed."""

    def __init__(self) -> None:
        self._written: list[float] = []
        self._since = 0.0
        self._looks = 0

    @property
    def is_first(self) -> bool:
        """Whether there was one look alone."""
        return self._looks == 1

    def of(self, live: "LiveRun") -> float:
        """Seconds since the run was written, the wall clocks of two machines apart."""
        now = time.monotonic()
        self._looks += 1
        if self._looks == 1:
            self._since = now - max(time.time() - live.written_at, 0.0)
        elif self._written != [live.written_at]:
            self._since = now
        self._written = [live.written_at]
        return now - self._since


def _shown(live: "LiveRun", age: float, *, as_json: bool, again: bool) -> bool:
    """Show it. Returns whether anybody reads it."""
    read = False
    with printing("stdout"):
        _show(live, age, as_json=as_json, again=again)
        sys.stdout.flush()
        read = True
    return read  # noqa: RET504 - `printing` keeps back what a stream raises


def _show(live: "LiveRun", age: float, *, as_json: bool, again: bool) -> None:
    import msgspec

    from raybench.reports.terminal.top import top_lines

    if as_json:
        click.echo(msgspec.json.encode(live))
        return
    if again and sys.stdout.isatty():
        click.clear()
    click.echo("\n".join(top_lines(live, live.written_at + age)))
