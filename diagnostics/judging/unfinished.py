"""What ranks began and no line shows to be done: a start, an attempt, the connections of a first collective."""

from diagnostics.events import Event, quote
from diagnostics.facts import Channel, JobFacts, Process, ProcessKey
from diagnostics.judging.lagging import LAZY_CONNECTION, open_starts, unconnected
from diagnostics.parsers.programs.restarts import RESTART

_CONNECTED = ("connected", "destroy")
_STEPS = (
    "network",
    "socket-devices",
    "ib-devices",
    "comm-nodes",
    "init-complete",
    "channel",
    "connected",
    "collective",
)
_ENDS = ("destroy", "tests-ended", "work-done")


def unfinished(facts: JobFacts) -> str:
    """What ranks began and no line shows to be done; empty where there is nothing of the kind."""
    return _never_began(facts) or _begun(facts)


def _begun(facts: JobFacts) -> str:
    if facts.steps.keys() >= set(facts.files) and not facts.of("tests-rank"):  # which come behind all that NCCL says
        return ""
    if waiting := open_starts(facts):
        told = "1 rank, which starts" if waiting == 1 else f"{waiting} ranks, which start"
        return (
            f"no line shows that {told} a communicator, {'completes' if waiting == 1 else 'complete'} it: "
            "the start hangs, or the log is cut. Give the whole log of every rank, with NCCL_DEBUG=INFO."
        )
    if stopped := _stopped_at_start(facts):
        chose = sum(bool(process.networks) for process in facts.processes.values())
        return (
            f"{len(stopped)} of {chose} processes that chose a network show no communicator that came to be there "
            f"(`Init COMPLETE`), the first of them pid {stopped[0].pid} on {stopped[0].host}. "
            "Give the whole log of every rank, with NCCL_DEBUG=INFO."
        )
    if trying := still_trying(facts):
        return told_of(trying)
    return _not_connected(facts)


def _not_connected(facts: JobFacts) -> str:
    """What is said of ranks that do not show that they are connected; empty where all are, or nothing is connected."""
    if _left_connecting(facts):
        return (
            "the log ends while ranks connect to each other for their first collective: no line shows that they are "
            "connected (`Connected all rings`). The job hangs there, or the log is cut. Give the whole log, with what "
            "the ranks printed when they were ended."
        )
    lag, group = unconnected(facts)
    if not lag:
        return ""
    told = "process does not show that it is" if lag == 1 else "processes do not show that they are"
    return (
        f"of {group} processes with the same communicators, {lag} {told} connected (`Connected all rings`) as often as "
        "the others: the job hangs there, or the log is cut. Give the whole log of every rank."
    )


def _never_began(facts: JobFacts) -> str:
    """Of processes whose communicators nobody completes, beside others that complete theirs."""
    members = [list(communicator.members.values()) for communicator in facts.communicators]
    done = {member.process for ranks in members for member in ranks if member.completed}
    if facts.starts_omitted or not done:
        return ""
    started = [{member.process for member in ranks if member.started} for ranks in members]
    apart: set[ProcessKey] = set().union(*(processes for processes in started if not processes & done))
    if not apart:
        return ""
    told = "1 process starts" if len(apart) == 1 else f"{len(apart)} processes start"
    return (
        f"{told} a communicator that no line shows to be complete, while others work without them: a second job "
        "in the same log, or ranks that hang. Give the log of each job by itself, whole, with NCCL_DEBUG=INFO."
    )


def _stopped_at_start(facts: JobFacts) -> list[Process]:
    """Processes that chose a network and are of no communicator, where others are: they tell nothing behind it.

    Those of an attempt before a restart do not count, nor a host's name to which what another one wrote is glued.
    """
    told = (member for communicator in facts.communicators for member in communicator.members.values())
    members = {member.process for member in told if member.started or member.completed}
    if facts.starts_omitted or not members:
        return []
    hosts = {host for host, _ in members}
    restarts = {event.origin.file: event.origin.sequence for event in facts.of(RESTART)}
    alone = [
        process
        for key, process in facts.processes.items()
        if key not in members
        and any(event.origin.sequence > restarts.get(event.origin.file, -1) for event in process.networks.values())
    ]
    return [
        process
        for process in alone
        if process.host and not any(process.host != host and process.host.endswith(host) for host in hosts)
    ]


def still_trying(facts: JobFacts) -> Event | None:
    """A call that is repeated up to the last that its process prints; None where each attempt leads on."""
    return next((event for event in facts.of("connect-retry", "retry") if is_last_step(event, facts)), None)


def told_of(trying: Event) -> str:
    """What is said of a call that is repeated up to the end."""
    return (
        f"{trying.origin.host or 'a rank'} goes on trying what fails up to the end of its log: "
        f"{quote(trying.text)[:160]}. The job waits for it, or the log is cut. Give the whole log."
    )


def is_last_step(event: Event, facts: JobFacts) -> bool:
    """Whether nothing that comes behind a line, of its process or else of its file, shows that the start goes on."""
    origin = event.origin
    if facts.went_on(event):
        return False
    if (process := facts.processes.get(origin.process) if origin.process else None) is not None:
        return process.last_progress < origin.sequence
    return not any(one.origin.file == origin.file and _is_behind(one, event) for one in facts.of(*_STEPS, *_ENDS))


def _is_behind(one: Event, event: Event) -> bool:
    return one.origin.sequence > event.origin.sequence


def _left_connecting(facts: JobFacts) -> bool:
    """Whether channels of a collective are opened after Init COMPLETE, as NCCL 2.22 and newer do, and none connects.

    ``Channel 00/0``: connections for sends and receives are numbered from 1, and nothing tells of their end.
    """
    completed = facts.of("init-complete")
    if facts.version is None or facts.version < LAZY_CONNECTION or not completed or facts.count(*_CONNECTED):
        return False
    begun = max(event.origin.sequence for event in completed)
    opened = [channel.event for channel in facts.channels if _is_of_collective(channel)]
    return any(event.origin.sequence > begun for event in opened)


def _is_of_collective(channel: Channel) -> bool:
    """Whether a channel may be a collective's: through shared memory, those of sends are numbered as these are."""
    number = channel.event.fields.get("channel", "")
    return number.endswith("/0") or (channel.transport == "SHM" and "/" not in number)
