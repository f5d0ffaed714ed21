"""Events to facts: what was seen in all the logs of one job. No judgement here.

The builder is bounded: of each kind of event it keeps the first MAX_EVENTS, and totals per host and rank of all.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from itertools import pairwise
from typing import Any, TypeVar

from diagnostics.events import Event, ProcessKey
from diagnostics.facts.communicator import Channel, CollectiveLog, Communicator
from diagnostics.facts.flight_record import FlightRecord
from diagnostics.facts.process import Device, Process, version_numbers
from diagnostics.facts.rank_hosts import hosts_of_ranks, ring_size
from diagnostics.facts.told_world import ToldWorld, told_world
from diagnostics.parsers.base import compiled
from diagnostics.parsers.last_errors import LastError
from diagnostics.parsers.steps import DoneStep, progress_of

MAX_EVENTS = 400
MAX_LOCAL_RANKS = 16  # no machine has more NVIDIA GPUs; AMD's partitions make more
MAX_COMPARED_HOSTS = 64
LAST_LINES = 8
MIN_STEPS = 2  # one line may tell of a step that is planned
_WHOSE_STEP = (
    r"\bpid=(?P<pid>\d{1,9})\b|(?i:\brank[ =:_]?)(?P<rank>\d{1,6})\b|^(?:\[\d{1,9},)?(?P<task>\d{1,6})(?:\]<\w+>)?: "
)
_OF_RCCL = r" comm 0x[0-9a-f]{1,16} nRanks (?P<nranks>\d{1,6})\b"  # behind what RCCL connects
_STARTING = (
    "bootstrap-interface",
    "socket-devices",
    "ib-devices",
    "ib-no-device",
    "network",
    "variable",
    "init-start",
    "init-complete",
    "rank-named",
)
Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class JobFacts:
    """Everything seen in all the logs of one job."""

    events: Mapping[str, Sequence[Event]]
    totals: Mapping[str, int]
    kind_hosts: Mapping[str, Mapping[str, int]]
    processes: Mapping[ProcessKey, Process]
    communicators: Sequence[Communicator]
    channels: Sequence[Channel]
    files: Sequence[str]
    lines_read: int
    lines_nccl: int
    last_lines: Mapping[str, int] = field(default_factory=dict)  # file -> the number of its last line
    last_work: Mapping[str, int] = field(default_factory=dict)  # file -> where its last line stands that shows work
    notes: Sequence[str] = ()
    flight_records: Sequence[FlightRecord] = ()
    damaged_dumps: Sequence[str] = ()
    collectives: Mapping[tuple[str, int], CollectiveLog] = field(default_factory=dict)  # by communicator and rank
    starts_omitted: bool = False  # more Init lines than are followed, or Ray left some out: absence proves nothing
    progress_omitted: int = -1  # up to here, lines that show how far a process has come may only have been counted

    steps: Mapping[str, str] = field(default_factory=dict)  # files that end with steps of a training -> the last one

    done_steps: Mapping[str, Sequence[DoneStep]] = field(default_factory=dict)  # file -> steps near its end

    open_tables: Mapping[str, str] = field(default_factory=dict)  # files whose last table has no end -> its last row

    torn_tracebacks: frozenset[str] = frozenset()  # files that end inside a traceback, before its exception

    last_errors: Mapping[str, Sequence[LastError]] = field(
        default_factory=dict
    )  # files that end with an error -> its lines

    last_hints: Mapping[str, Sequence[LastError]] = field(
        default_factory=dict
    )  # files whose last lines tell of a failure in words that nobody knows -> these lines

    @property
    def empty_files(self) -> list[str]:
        """Files without a line."""
        return [file for file in self.files if not self.last_lines.get(file)]

    def of(self, *kinds: str) -> list[Event]:
        """Events of these kinds in reading order."""
        if len(kinds) == 1:
            return list(self.events.get(kinds[0], ()))
        if self.events.keys().isdisjoint(kinds):  # as of nearly all that the rules ask for
            return []
        found = [event for kind in kinds if kind in self.events for event in self.events[kind]]
        return sorted(found, key=lambda event: event.origin.sequence)

    def first(self, *kinds: str) -> Event | None:
        """The first event of these kinds."""
        return next(iter(self.of(*kinds)), None)

    def count(self, *kinds: str) -> int:
        """How many events of these kinds there were, kept or not."""
        return sum(self.totals.get(kind, 0) for kind in kinds)

    @cached_property
    def world(self) -> Communicator | None:
        """The largest communicator; the first of equals."""
        return max(self.communicators, key=lambda communicator: communicator.nranks, default=None)

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that printed anything, sorted."""
        return tuple(sorted({process.host for process in self.processes.values() if process.host}))

    @cached_property
    def ranks_of_process(self) -> Mapping[ProcessKey, tuple[int, ...]]:
        """World ranks of each process; from the launcher's prefix where no communicator says."""
        ranks: dict[ProcessKey, set[int]] = defaultdict(set)
        for member in self.world.members.values() if self.world else ():
            ranks[member.process].add(member.rank)
        for key, process in self.processes.items():
            if process.rank is not None and not ranks[key]:
                ranks[key].add(process.rank)
        return {key: tuple(sorted(found)) for key, found in ranks.items()}

    def ranks_of(self, events: Iterable[Event]) -> tuple[int, ...]:
        """World ranks that printed these events, as far as they can be determined."""
        ranks: set[int] = set()
        for event in events:
            if event.origin.process is not None and (found := self.ranks_of_process.get(event.origin.process)):
                ranks.update(found if len(found) <= 8 else ())
            elif event.origin.rank is not None:
                ranks.add(event.origin.rank)
        return tuple(sorted(ranks))

    @cached_property
    def variables(self) -> Mapping[str, Mapping[str, tuple[ProcessKey, ...]]]:
        """Variable -> value -> processes that echoed it."""
        found: dict[str, dict[str, list[ProcessKey]]] = defaultdict(lambda: defaultdict(list))
        for key, process in self.processes.items():
            for name, value in process.variables.items():
                found[name][value].append(key)
        return {name: {value: tuple(keys) for value, keys in values.items()} for name, values in found.items()}

    def value_of(self, name: str) -> str | None:
        """The value of a variable where any process echoed it; the first of several."""
        return next(iter(self.variables.get(name, {})), None)

    def variable_event(self, name: str) -> Event | None:
        """The line that echoed a variable, or the command line that set it."""
        echoed = (event for event in self.of("variable") if event.fields["name"] == name)
        typed = (event for event in self.of("shell-variable") if event.fields["name"] == name)
        return next(echoed, None) or next(typed, None)

    @cached_property
    def typed_variables(self) -> Mapping[str, str]:
        """Variables of commands and scripts in the log: likely, not proven, to have reached the ranks."""
        return {event.fields["name"]: event.fields["value"] for event in self.of("shell-variable")}

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """Every verbs device that any process listed, without repetition."""
        found: dict[Device, None] = {}
        for process in self.processes.values():
            found.update(dict.fromkeys(process.devices or ()))
        return tuple(found)

    @cached_property
    def net_channels(self) -> tuple[Channel, ...]:
        """Channels over the network."""
        return tuple(channel for channel in self.channels if channel.transport == "NET")

    @cached_property
    def library(self) -> str:
        """``RCCL`` where AMD's library printed the log, else ``NCCL``."""
        named = any(event.fields.get("library") == "RCCL" for event in self.of("version"))
        paths = any(
            "rccl" in event.text.lower() for event in self.of("channel", "trace", "connect-failed", "cuda-failure")
        )
        return "RCCL" if named or paths or self.of("amd") else "NCCL"

    @cached_property
    def version(self) -> tuple[int, int, int] | None:
        """The lowest version seen, as numbers; None where no line says."""
        numbers = sorted(found for text in self.versions if (found := version_numbers(text)))
        return numbers[0] if numbers else None

    @cached_property
    def versions(self) -> tuple[str, ...]:
        """Version texts as printed, sorted."""
        named = {event.fields["version"] for event in self.of("version", "init-options")}
        return tuple(sorted(named.union(*(process.versions for process in self.processes.values()))))

    @cached_property
    def multi_node(self) -> bool | None:
        """Whether the job spans nodes as NCCL sees them; None where the log does not show it."""
        if self.split_machine is not None:
            return False
        if self.node_count is not None:
            return self.node_count > 1
        if self.net_channels or len(self._starting_hosts) > 1:
            return True
        crowded = self.world is not None and self.world.nranks > MAX_LOCAL_RANKS and self.library == "NCCL"
        return True if crowded else None

    @cached_property
    def split_machine(self) -> Communicator | None:
        """A communicator whose ranks are all on one machine and count as several nodes; None where none is shown.

        One host name alone does not show it, since machines may have the same: their GPUs then have the same buses,
        or their interfaces other addresses.
        """
        identities = len(set(self.variables.get("NCCL_HOSTID", ())))
        addresses = {event.fields["address"] for event in self.of("bootstrap-interface")}
        for one in self.communicators:
            members, hosts = one.members.values(), {member.process[0] for member in one.members.values()}
            whole = len(members) == one.nranks > 1 and len(hosts) == 1 and "" not in hosts
            if not whole or len({member.bus for member in members}) != one.nranks or len(addresses) > 1:
                continue
            if max(one.nodes or 0, identities) > 1 or self._is_linked_by_network(one):
                return one
        return None

    def _is_linked_by_network(self, one: Communicator) -> bool:
        """Whether ranks reach each other over the network, where no line counts nodes and nothing switches P2P off.

        With shared memory switched off too, the network is all that is left to ranks of one machine.
        """
        direct = self.variables.keys() & {"NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"}
        if one.nodes is not None or bool(direct) != ("NCCL_SHM_DISABLE" in self.variables):
            return False
        processes = {member.process for member in one.members.values()}
        return processes <= self._with_interface and not processes.isdisjoint(self._over_network)

    @cached_property
    def _with_interface(self) -> set[ProcessKey | None]:
        return {event.origin.process for event in self.of("bootstrap-interface")}

    @cached_property
    def _over_network(self) -> set[ProcessKey | None]:
        return {channel.event.origin.process for channel in self.net_channels}

    def survived(self, event: Event) -> bool:
        """Whether who printed a line went on to work: its process, else its rank, else all that write its file.

        Files are read one after another, so that what another one shows need not have come later.
        """
        writers = self._writers_of(event)
        if not writers:
            return self.is_worked_behind(event)
        return all(process.last_work > event.origin.sequence for process in writers)

    def went_on(self, event: Event) -> bool:
        """Whether who printed a line went on to work, or its file ends with steps of a training."""
        return self.survived(event) or event.origin.file in self.steps

    def is_worked_behind(self, event: Event) -> bool:
        """Whether any process works behind a line, in its file."""
        return self.last_work.get(event.origin.file, -1) > event.origin.sequence

    def steps_are_done_behind(self, event: Event) -> bool:
        """Whether a row of measurements, or several steps, stand behind a line, and not of another rank or process.

        What a program prints into a pipe may stand behind what it printed later: alone, they do not undo a failure.
        """
        file, line = event.origin.file, event.origin.line
        last = self.last_lines.get(file, 0)
        behind = [one for one in self.done_steps.get(file, ()) if last - one.behind > line]
        own = [one for one in behind if not self._is_of_another(one, event)]
        return any(one.row for one in own) or len({progress_of(one.text) for one in own}) >= MIN_STEPS

    def _is_of_another(self, step: DoneStep, event: Event) -> bool:
        """Whether a step names another rank or process than the one that printed a line."""
        named = compiled(_WHOSE_STEP).search(step.text)
        if named is None:
            return False
        ranks = self.ranks_of([event])
        own = compiled(_WHOSE_STEP).search(event.text)  # of what is not NCCL's, the carrier alone names the process
        if named["pid"]:
            pid = event.origin.pid if own is None or not own["pid"] else int(own["pid"])
            return pid is not None and int(named["pid"]) != pid
        if not ranks and own is not None and not own["pid"]:
            ranks = (int(own["rank"] or own["task"]),)
        return bool(ranks) and int(named["rank"] or named["task"]) not in ranks

    def _writers_of(self, event: Event) -> list[Process]:
        """The processes of which one printed a line; empty where none is known."""
        origin = event.origin
        if origin.process is not None:
            return [process] if (process := self.processes.get(origin.process)) else []
        here = {key: process for key, process in self.processes.items() if process.file == origin.file}
        if origin.rank is not None:
            ranks = self.ranks_of_process
            named = [process for key, process in here.items() if origin.rank in ranks.get(key, ())]
            if named:
                return named
        return list(here.values())

    def is_near_end(self, event: Event) -> bool:
        """Whether a line is among the last of its file."""
        return event.origin.line > self.last_lines.get(event.origin.file, 0) - LAST_LINES

    def is_from_unknown_client(self, event: Event) -> bool:
        """Whether the allocator of NCCL printed a line: unknown clients reach its port, and it goes on."""
        return event.origin.process is not None and (event.origin.process, event.origin.thread) in self._allocators

    @cached_property
    def _allocators(self) -> set[tuple[ProcessKey | None, int | None]]:
        return {(event.origin.process, event.origin.thread) for event in self.of("allocator-refused")}

    @cached_property
    def failed(self) -> bool:
        """Whether NCCL's failure stack or result, or a program's, shows that the run did not go on."""
        events = self.of("run-error", "failure-frame", "async-error", "communicator-fatal", "plugin-none")
        return any(not self.survived(event) for event in events)

    @cached_property
    def works(self) -> bool:
        """Whether a line shows that a communicator came to be: only then can the absence of faults mean anything."""
        return bool(self.count("init-complete", "collective", "destroy"))

    @cached_property
    def _starting_hosts(self) -> set[str]:
        """Hosts whose ranks told of their start; a name that is a torn piece of another one does not count."""
        hosts = {host for kind in _STARTING for host in self.kind_hosts.get(kind, ())}
        if len(hosts) > MAX_COMPARED_HOSTS:
            return hosts
        return {host for host in hosts if not any(host != other and other.endswith(host) for other in hosts)}

    @cached_property
    def world_size(self) -> int | None:
        """Ranks of the largest communicator: by its Init lines, other lines of NCCL, or the program; else None."""
        if self.world is not None:
            return self.world.nranks
        return self._size_by_other_lines or self._told_world.size

    @cached_property
    def _size_by_other_lines(self) -> int | None:
        """Ranks by what NCCL says beside the Init lines, and the table of nccl-tests."""
        named = [event.number("nranks") or 0 for event in self.of("rank-named", "destroy", "abort")]
        rings = [{int(rank) for rank in event.fields["ranks"].split()} for event in self.of("ring")]
        whole = [len(ring) for ring in rings if ring == set(range(len(ring)))]
        ends = [compiled(_OF_RCCL).search(text) for text in self._texts_of_connections]
        told = [int(end["nranks"]) for end in ends if end is not None]
        return max((*named, *whole, *told), default=0) or len(self._hosts_of_tests) or None

    @property
    def _texts_of_connections(self) -> list[str]:
        return [channel.event.text for channel in self.channels] + [event.text for event in self.of("connected")]

    @cached_property
    def _told_world(self) -> ToldWorld:
        """What programs say of the job's size; nothing where what NCCL shows contradicts it."""
        told = told_world(self.events)
        if told.size and (told.size < len(self.hosts) or (self.world and self.world.nranks != told.size)):
            return ToldWorld(None, None)
        few = told.nodes is not None and told.nodes < len(self.hosts)
        return told if not few and not (told.nodes == 1 and self.net_channels) else ToldWorld(told.size, None)

    @cached_property
    def node_count(self) -> int | None:
        """Nodes of the job: by NCCL's own lines, else by what its program says."""
        return self._nodes_by_nccl or self._told_world.nodes

    @cached_property
    def _nodes_by_nccl(self) -> int | None:
        """Nodes of the world communicator: NCCL's own count, else the hosts of all its ranks."""
        world = self.world
        if world is None:
            told = self._nodes_of_named_ranks or self._nodes_of_lone_ranks or self._nodes_of_channels
            return told or self._nodes_of_tests
        if world.nodes is not None or world.nranks == 1:
            return world.nodes or 1
        if len(world.members) == world.nranks and world.hosts and (len(world.hosts) > 1 or not self.net_channels):
            return len(world.hosts)
        if not self.net_channels and self._joined_locally(world.nranks):
            return 1
        processes = [process for process in self.processes.values() if process.host]
        alone = len(self.hosts) == 1 and len(processes) >= world.nranks and not self.net_channels
        return 1 if alone else self._nodes_of_channels

    @cached_property
    def _nodes_of_named_ranks(self) -> int | None:
        """Hosts of all ranks as releases to 2.3 name them; None where one of them is not named."""
        named = {event.number("rank"): event.origin.host for event in self.of("rank-named") if event.origin.host}
        sizes = {event.number("nranks") for event in self.of("rank-named")}
        return len(set(named.values())) if named and sizes == {len(named)} and not self.net_channels else None

    @cached_property
    def _hosts_of_tests(self) -> Sequence[str]:
        """The host of each rank as a program of nccl-tests lists them; empty where it lists none, or is cut there.

        Of several programs, one after the other, all must list the same.
        """
        rows = self.of("tests-rank")
        if not rows or len(rows) < self.count("tests-rank"):
            return ()
        starts = [place for place, event in enumerate(rows) if event.number("rank") == 0]
        tables = [rows[start:end] for start, end in pairwise([*starts, len(rows)])]
        listed = {tuple(sorted((event.number("rank") or 0, event.fields["where"]) for event in one)) for one in tables}
        table = listed.pop() if len(listed) == 1 and sum(map(len, tables)) == len(rows) else ()
        whole = [rank for rank, _ in table] == [*range(len(table))] and (len(tables) == 1 or len(table) > 1)
        last = rows[-1].origin
        return [where for _, where in table] if whole and self.last_lines.get(last.file, 0) > last.line else ()

    @cached_property
    def _nodes_of_tests(self) -> int | None:
        """The hosts that nccl-tests lists; one alone where data crosses no network: nodes may have one name."""
        hosts = len(set(self._hosts_of_tests))
        return hosts if hosts > 1 or (hosts and not self.net_channels) else None

    @cached_property
    def _nodes_of_lone_ranks(self) -> int | None:
        """Hosts, where each rank has one of its own; None where ranks share hosts, or some are not seen."""
        hosts = self._starting_hosts
        return len(hosts) if self.world_size == len(hosts) > 1 else None

    @cached_property
    def _nodes_of_channels(self) -> int | None:
        """Hosts of all ranks, more than one, as their starts and channels show them; None where one is not shown."""
        size = self.world.nranks if self.world else self.world_size or ring_size(self.channels)
        hosts = hosts_of_ranks(self.world, self.channels)
        if not size or len(hosts) != size or hosts.keys() != set(range(size)):  # a log may say any number
            return None
        named = set(hosts.values())
        return len(named) if len(named) > 1 and named >= set(self.hosts) else None

    def _joined_locally(self, nranks: int) -> bool:
        """Whether channels inside a machine (P2P or SHM, not multi-node NVLink) join all of these ranks."""
        neighbours: dict[int, set[int]] = defaultdict(set)
        for channel in self.channels:
            local = channel.transport in ("P2P", "SHM") and "MNNVL" not in channel.event.text
            if local and channel.source is not None and channel.target is not None:
                neighbours[channel.source].add(channel.target)
                neighbours[channel.target].add(channel.source)
        reached, waiting = {0}, [0]
        while waiting:
            fresh = neighbours[waiting.pop()] - reached
            reached |= fresh
            waiting += fresh
        return nranks <= len(reached) and reached.issuperset(range(nranks))


def asked_once(question: Callable[[JobFacts], Answer]) -> Callable[[JobFacts], Answer]:
    """A question that many rules ask of the same facts: its answer is kept with them, as a cached property is."""
    name = f"{question.__module__}.{question.__qualname__}"

    @wraps(question)
    def answer(facts: JobFacts) -> Answer:
        kept: dict[str, Any] = vars(facts)
        if name not in kept:
            kept[name] = question(facts)
        found: Answer = kept[name]
        return found

    return answer
