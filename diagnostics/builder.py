"""Collects events into facts while the logs are read."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from diagnostics.events import Event, Origin, quote, times
from diagnostics.facts import (
    MAX_COLLECTIVES,
    MAX_COMMUNICATORS,
    MAX_EVENTS,
    MAX_MEMBERS,
    MAX_PROCESSES,
    MAX_START_EVENTS,
    Channel,
    CollectiveLog,
    Communicator,
    Device,
    FlightRecord,
    JobFacts,
    Member,
    Process,
    ProcessKey,
    collective_form,
    read_devices,
)
from diagnostics.parsers.base import compiled
from diagnostics.parsers.last_errors import LastError
from diagnostics.parsers.steps import DoneStep
from diagnostics.scanning.starts import Start, start_of

_UNKNOWN: ProcessKey = ("", 0)
MAX_DEVICES = 256
_MANY = frozenset(
    {"variable", "ib-devices", "version", "inspector", "inspector-p2p", "ras-member", "ras-communicator"}
)  # compared


@dataclass(slots=True)
class FactBuilder:
    """Takes events in reading order; ``build`` gives the facts. Memory is bounded by the MAX_ constants."""

    events: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    totals: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    kind_hosts: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    processes: dict[ProcessKey, Process] = field(default_factory=dict)
    communicators: dict[str, Communicator] = field(default_factory=dict)
    collectives: dict[tuple[str, int], CollectiveLog] = field(default_factory=dict)
    work: dict[str, int] = field(default_factory=dict)  # file -> where its last line stands that shows work
    _kept_collectives: int = 0
    _pointers: dict[tuple[ProcessKey, str], tuple[Communicator, int]] = field(default_factory=dict)
    _members: int = 0
    _taken: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, event: Event) -> None:
        """Take one event."""
        kind, origin = event.kind, event.origin
        self.totals[kind] += times(event) if origin.level == "WARN" else 1
        process = self._process(origin)
        if origin.host and len(hosts := self.kind_hosts[kind]) < MAX_PROCESSES:
            hosts[origin.host] += 1
        kept = self.events[kind]
        if len(kept) < (10 * MAX_EVENTS if kind in _MANY else MAX_EVENTS):
            kept.append(event)
        if kind not in _NO_PROGRESS:
            process.last_progress = origin.sequence
        if kind in _WORK:
            process.last_work = self.work[origin.file] = origin.sequence
        if handler := _HANDLERS.get(kind):
            handler(self, event, process)

    def add_start(self, start: Start) -> None:
        """Take a start or completion of a communicator, as ``add`` takes its event."""
        kind, origin = start.kind, start.origin
        self.totals[kind] += 1
        process = self._process(origin)
        if origin.host and len(hosts := self.kind_hosts[kind]) < MAX_PROCESSES:
            hosts[origin.host] += 1
        if len(kept := self.events[kind]) < MAX_EVENTS:
            kept.append(start.event())
        if start.completes:
            process.last_progress = process.last_work = self.work[origin.file] = origin.sequence
        self._take_member(start)

    def _process(self, origin: Origin) -> Process:
        key = origin.process or _UNKNOWN
        process = self.processes.get(key)
        if process is None:
            process = Process(host=key[0], pid=key[1], file=origin.file)
            if len(self.processes) < MAX_PROCESSES:
                self.processes[key] = process
        if process.rank is None and origin.host is not None:
            process.rank = origin.rank
        return process

    def _take_version(self, event: Event, process: Process) -> None:
        if event.origin.host is not None:
            process.versions.add(event.fields["version"])

    def _take_network(self, event: Event, process: Process) -> None:
        if len(process.networks) < 8:
            process.networks.setdefault(quote(event.fields["name"])[:60], event)

    def _take_devices(self, event: Event, process: Process) -> None:
        process.devices = read_devices(event.fields["devices"])
        process.devices_event = event

    def _take_device(self, event: Event, process: Process) -> None:
        """One line a device, as up to 2.3."""
        fields = event.fields
        device = Device(name=fields["name"], port=int(fields["port"][:6]), layer=fields["layer"])
        if device not in (process.devices or ()) and len(process.devices or ()) < MAX_DEVICES:
            process.devices = (*(process.devices or ()), device)
            process.devices_event = process.devices_event or event

    def _take_variable(self, event: Event, process: Process) -> None:
        if len(process.variables) < 200:
            process.variables[event.fields["name"]] = event.fields["value"].strip().removesuffix(".")

    def _take_channel(self, event: Event, process: Process) -> None:
        transport = event.fields["transport"]
        process.transports["SHM" if transport.startswith("direct") else transport] += 1

    def _take_connected(self, _event: Event, process: Process) -> None:
        process.connected += 1

    def _take_init(self, event: Event, _process: Process) -> None:
        rank, nranks = event.number("rank"), event.number("nranks")
        if rank is not None and nranks is not None:
            self._take_member(start_of(event, rank, nranks))

    def _take_member(self, start: Start) -> None:
        rank = start.rank
        if rank >= start.nranks or self._members >= MAX_MEMBERS:
            return
        key = start.origin.process or _UNKNOWN
        communicator = self._communicator(start, key)
        if communicator is None:
            return
        member = communicator.members.get(rank)
        if member is None:
            member = communicator.members[rank] = Member(rank=rank, process=key)
            self._members += 1
        member.bus, member.cuda, member.nvml = start.bus, start.cuda, start.nvml
        if start.completes:
            member.completed = True
        else:
            member.started = True
            member.start = start if self._members <= MAX_START_EVENTS else None
        self._pointers[key, start.comm] = (communicator, rank)

    def _communicator(self, start: Start, key: ProcessKey) -> Communicator | None:
        """The communicator that an Init line belongs to: by its id, else by its address, else by size and free rank."""
        name, rank, nranks = start.comm_id, start.rank, start.nranks
        if name is None:
            known = self._pointers.get((key, start.comm))
            if known and known[0].nranks == nranks and not known[0].members[known[1]].completed:
                return known[0]
            name = self._free_name(rank, nranks)
        found = self.communicators.get(name)
        if found is None and len(self.communicators) < MAX_COMMUNICATORS:
            found = self.communicators[name] = Communicator(key=name, nranks=nranks)
        return found

    def _free_name(self, rank: int, nranks: int) -> str:
        number = self._taken.get((nranks, rank), 0)  # all below have the rank: none ever loses one
        while (found := self.communicators.get(f"{nranks}/{number}")) and rank in found.members and number < 1000:
            number += 1
        self._taken[nranks, rank] = number
        return f"{nranks}/{number}"

    def _take_nodes(self, event: Event, _process: Process) -> None:
        key = event.origin.process or _UNKNOWN
        nranks, nodes, rank = (event.number(name) for name in ("nranks", "nodes", "rank"))
        if nranks is None or nodes is None or rank is None:
            return
        known = self._pointers.get((key, event.fields["comm"]))
        if known is None:
            name = f"{nranks}/nodes"
            communicator = self.communicators.setdefault(name, Communicator(key=name, nranks=nranks))
            communicator.members.setdefault(rank, Member(rank=rank, process=key))
        else:
            communicator = known[0]
        communicator.nodes = max(nodes, communicator.nodes or 0)
        if rank in communicator.members:
            communicator.members[rank].local_ranks = event.number("local_ranks")

    def _take_collective(self, event: Event, _process: Process) -> None:
        known = self._pointers.get((event.origin.process or _UNKNOWN, event.fields["comm"]))
        if known is None or len(event.fields["number"]) > 16:
            return
        log = self.collectives.setdefault((known[0].key, known[1]), CollectiveLog())
        if event.fields["operation"] in ("Send", "Recv"):
            log.point_to_point = True
            return
        number = int(event.fields["number"], 16)
        log.last = max(number, log.last)
        if self._kept_collectives < MAX_COLLECTIVES:
            self._kept_collectives += 1
            log.forms.setdefault(number, {}).setdefault(collective_form(event), event)

    def _take_destroy(self, event: Event, _process: Process) -> None:
        known = self._pointers.get((event.origin.process or _UNKNOWN, event.fields["comm"]))
        if known and known[1] in known[0].members:
            known[0].members[known[1]].destroyed = True

    def build(
        self,
        *,
        channels: Mapping[bytes, int],
        channel_event: Mapping[bytes, Event],
        files: Sequence[str],
        lines: tuple[int, int],
        repeated: Mapping[str, int],
        notes: Sequence[str] = (),
        dumps: Sequence[FlightRecord] = (),
        damaged_dumps: Sequence[str] = (),
        starts_omitted: bool = False,
        last_lines: Mapping[str, int] | None = None,
        unended: frozenset[str] = frozenset(),
        progress_omitted: int = -1,
        steps: Mapping[str, str] | None = None,
        done_steps: Mapping[str, Sequence[DoneStep]] | None = None,
        open_tables: Mapping[str, str] | None = None,
        torn_tracebacks: frozenset[str] = frozenset(),
        last_errors: Mapping[str, Sequence[LastError]] | None = None,
        last_hints: Mapping[str, Sequence[LastError]] | None = None,
    ) -> JobFacts:
        """The facts so far. ``lines`` are lines read and lines of NCCL among them; files ``unended`` may be cut."""
        last = {(file, (last_lines or {}).get(file, 0)) for file in unended}
        whole = ((key, one) for key, one in channel_event.items() if not (_place(one) in last and _may_be_cut(one)))
        table = tuple(_channel(event, channels[key]) for key, event in whole)
        named = {key: process for key, process in self.processes.items() if key != _UNKNOWN or _says_something(process)}
        return JobFacts(
            events={kind: tuple(events) for kind, events in self.events.items()},
            totals={kind: total + repeated.get(kind, 0) for kind, total in self.totals.items()},
            kind_hosts={kind: dict(hosts) for kind, hosts in self.kind_hosts.items()},
            processes=named,
            communicators=tuple(self.communicators.values()),
            collectives=dict(self.collectives),
            channels=table,
            files=tuple(files),
            lines_read=lines[0],
            lines_nccl=lines[1],
            last_lines=dict(last_lines or {}),
            last_work=dict(self.work),
            notes=tuple(notes),
            flight_records=tuple(dumps),
            damaged_dumps=tuple(damaged_dumps),
            starts_omitted=starts_omitted or self._members >= MAX_MEMBERS,
            progress_omitted=progress_omitted,
            steps=dict(steps or {}),
            done_steps=dict(done_steps or {}),
            open_tables=dict(open_tables or {}),
            torn_tracebacks=torn_tracebacks,
            last_errors=dict(last_errors or {}),
            last_hints=dict(last_hints or {}),
        )


def _says_something(process: Process) -> bool:
    return bool(process.networks or process.devices is not None or process.variables or process.transports)


def _place(event: Event) -> tuple[str, int]:
    return event.origin.file, event.origin.line


def _may_be_cut(event: Event) -> bool:
    """Whether what a line without an end says of the network may go on: ``via NET``, ``via NET/IB/0``, ``.../GD``."""
    return compiled(r" via (?!P2P|SHM|direct|.*/GDRDMA|NET/\w*Socket/\d)").search(event.text) is not None


def _channel(event: Event, count: int) -> Channel:
    fields = event.fields
    transport, rest = fields["transport"], fields.get("rest", "")
    if transport.startswith("direct"):
        transport = "SHM"
    network = quote(rest.split("/")[0])[:60] if transport == "NET" else None
    return Channel(
        transport=transport,
        network=network,
        kind=rest.split(" comm ")[0].strip(),
        gdr="/GDRDMA" in f"/{rest}",
        direction=fields.get("direction"),
        source=event.number("source"),
        target=event.number("target"),
        target_device=fields.get("target_device"),
        count=count,
        event=event,
    )


_NO_PROGRESS = frozenset(
    {
        "fatal-level",
        "init-start",
        "connect-retry",
        "retry",
        "connect-failed",
        "peer-closed",
        "unclassified-warning",
        "failure-frame",
        "stack-line",
        "trace",
    }
)
_WORK = frozenset({"init-complete", "channel", "channel-count", "connected", "collective", "comm-nodes"})
_HANDLERS: Mapping[str, Callable[[FactBuilder, Event, Process], None]] = {
    "version": FactBuilder._take_version,
    "network": FactBuilder._take_network,
    "ib-devices": FactBuilder._take_devices,
    "ib-device": FactBuilder._take_device,
    "variable": FactBuilder._take_variable,
    "channel": FactBuilder._take_channel,
    "connected": FactBuilder._take_connected,
    "init-start": FactBuilder._take_init,
    "init-complete": FactBuilder._take_init,
    "comm-nodes": FactBuilder._take_nodes,
    "collective": FactBuilder._take_collective,
    "destroy": FactBuilder._take_destroy,
    "abort": FactBuilder._take_destroy,
}
