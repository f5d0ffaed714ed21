"""From hosts and settings to what each host's agent does in each round. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from raybench.errors import UsageError
from raybench.preflight.fabric.commands import command_for, gpu_memory_way, nearest_gpu
from raybench.preflight.fabric.distinct import distinct_ends, distinct_nics
from raybench.preflight.fabric.ends import End
from raybench.preflight.fabric.rails import HostProblem, Rail, tcp_rails, verbs_rails
from raybench.preflight.fabric.rounds import Round, Scope, leaves_by_name, leaves_by_size, plan_rounds
from raybench.preflight.fabric.settings import FabricSettings

PERFTEST = ("ib_write_bw", "ib_write_lat")
_MOST_NAMED = 5
_ROUND_BY_ROUND_HOSTS = 64  # up to so many hosts every round is fetched, and shown, by itself
_PORTIONS = 16
_READY_SECONDS = 15.0  # a server that opens a device may take seconds until it listens
_PATIENCE_SECONDS = 4.0  # how long a partner that has answered before may be silent


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """Hosts that take part, in the inventory's order, their rails, and why others do not.

    ``tool`` is what is run; ``notes`` say why it is another than was asked for. ``leaf_of[i]`` is the leaf of host i;
    () where leaves are not known.
    """

    tool: str
    ends: tuple[End, ...]
    rails: tuple[Rail, ...]
    leaf_of: tuple[int, ...]
    leaf_names: tuple[str, ...]
    problems: tuple[HostProblem, ...]
    notes: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the hosts that take part."""
        return tuple(end.name for end in self.ends)


def survey(ends: Sequence[End], settings: FabricSettings) -> Fabric:
    """Decide on tool, rails and hosts. Raises UsageError where nothing can be measured at all, saying why."""
    usable, problems = _reachable(ends)
    usable, twice = distinct_ends(usable)
    problems += twice
    tool, notes = _tool(usable, settings)
    if tool in PERFTEST:
        equipped, shared = distinct_nics([end for end in usable if tool in end.tools])
        problems += shared
        problems += [_without_tool(end, tool) for end in usable if tool not in end.tools]
        rails, found = verbs_rails(equipped, settings.devices)
        problems += found
        notes += _gpu_notes(equipped, tool, settings)
    else:
        notes += _gpu_notes_of_tcp(tool, settings)
        rails = tcp_rails(usable)
        problems += _broken_verbs(usable, settings)
    members = {host for rail in rails for host in rail.ports}
    taking_part = tuple(end for end in usable if end.name in members)
    if len(taking_part) < 2:
        raise UsageError(_too_few(taking_part, problems, tool))
    leaf_of, leaf_names = _leaves(taking_part, settings)
    return Fabric(
        tool=tool,
        ends=taking_part,
        rails=tuple(rails),
        leaf_of=leaf_of,
        leaf_names=leaf_names,
        problems=tuple(problems),
        notes=tuple(notes),
    )


def scan_rounds(fabric: Fabric, settings: FabricSettings) -> tuple[Round, ...]:
    """The rounds of the scope that was asked for, over the hosts that take part."""
    members: dict[int, list[int]] = {}
    for host, leaf in enumerate(fabric.leaf_of):
        members.setdefault(leaf, []).append(host)
    scope: Scope = settings.scope  # type: ignore[assignment]  # checked by FabricSettings
    return plan_rounds(
        len(fabric.ends), scope, leaves=list(members.values()), matchings=settings.matchings, seed=settings.seed
    )


def work_of(
    fabric: Fabric,
    settings: FabricSettings,
    rounds: Sequence[Mapping[str, Round]],
    *,
    first: int,
    token: str,
    forks: int,
) -> dict[str, dict[str, Any]]:
    """What each host's agent is given, by host name. ``rounds[k][rail]`` are the pairs of round ``first + k``.

    Both directions of a pair are measured one after the other; rails at the same time, but one by one in scope
    ``rails``. A host without a test is not in it. See ``raybench_fabric_agent`` for the form.
    """
    apart = settings.scope == "rails"
    plans: dict[str, list[list[Any]]] = {}
    peers: dict[str, set[str]] = {}
    for number, by_rail in enumerate(rounds, start=first):
        for host, lanes in _lanes(fabric, by_rail, number).items():
            merged = [[test for lane in lanes.values() for test in lane]] if apart else list(lanes.values())
            plans.setdefault(host, []).append([number, merged])
            peers.setdefault(host, set()).update(test[2] for lane in merged for test in lane)
    ends = {end.name: end for end in fabric.ends}
    common = _common(fabric, settings, len(rounds), token, forks)
    return {
        host: common
        | {
            "address": ends[host].address,
            "control_port": ends[host].control_port,
            "peers": {peer: [ends[peer].address, ends[peer].control_port] for peer in sorted(peers[host])},
            "commands": _commands(fabric, settings, ends[host]),
            "rounds": plan,
        }
        for host, plan in plans.items()
    }


def portions(rounds: int, hosts: int, first: int) -> list[list[int]]:
    """[first, last] round of each fetch: every round by itself for few hosts, else some 16 fetches."""
    size = 1 if hosts <= _ROUND_BY_ROUND_HOSTS else max(1, -(-rounds // _PORTIONS))
    return [[first + start, first + min(start + size, rounds) - 1] for start in range(0, rounds, size)]


def round_seconds(fabric: Fabric | None, settings: FabricSettings) -> float:
    """About how long a round takes."""
    one_by_one = len(fabric.rails) if fabric is not None and settings.scope == "rails" else 1
    return 2 * settings.test_seconds * one_by_one


def _lanes(fabric: Fabric, by_rail: Mapping[str, Round], number: int) -> dict[str, dict[str, list[list[str]]]]:
    """host -> rail -> its tests of one round, both directions of a pair in a row."""
    lanes: dict[str, dict[str, list[list[str]]]] = {}
    for rail in fabric.rails:
        for pair in by_rail.get(rail.name, ()):
            one, other = (fabric.ends[index].name for index in pair)
            if one in rail.ports and other in rail.ports:
                for source, destination in ((one, other), (other, one)):
                    test = f"{number}.{rail.name}.{source}.{destination}"
                    lanes.setdefault(source, {}).setdefault(rail.name, []).append(
                        [test, "client", destination, rail.name]
                    )
                    lanes.setdefault(destination, {}).setdefault(rail.name, []).append(
                        [test, "server", source, rail.name]
                    )
    return lanes


def _common(fabric: Fabric, settings: FabricSettings, rounds: int, token: str, forks: int) -> dict[str, Any]:
    hosts = len(fabric.ends)
    start = settings.start_seconds + round(1.5 * hosts / max(1, min(forks, hosts)))
    one_by_one = len(fabric.rails) if settings.scope == "rails" else 1
    worst = start + rounds * one_by_one * 2 * (settings.longest_seconds + max(_READY_SECONDS, start / 2))
    return {
        "token": token,
        "ports": [settings.first_port, settings.last_port],
        "seconds": settings.seconds,
        "streams": settings.streams,
        "limit_seconds": settings.longest_seconds,
        "start_seconds": start,
        "ready_seconds": max(_READY_SECONDS, start / 2),
        "patience_seconds": max(_PATIENCE_SECONDS, start / 8),
        "lease_seconds": 60 + 2 * start,
        "deadline_seconds": round(worst) + 60,
    }


def _commands(fabric: Fabric, settings: FabricSettings, end: End) -> dict[str, Any]:
    commands = {}
    for rail in fabric.rails:
        if end.name in rail.ports:
            command = asdict(command_for(fabric.tool, end, rail.ports[end.name], settings))
            commands[rail.name] = {name: value for name, value in command.items() if name != "gpu"}
    return commands


def _reachable(ends: Sequence[End]) -> tuple[list[End], list[HostProblem]]:
    usable, problems = [], []
    for end in ends:
        if end.address is None:
            text = f"no address of it was found{f' on {end.interface}' if end.interface else ''}"
            problems.append(
                HostProblem(host=end.name, text=text, advice="set fabric_address or fabric_interface for it")
            )
        elif end.control_port is None:
            text = "none of the ports that the test may use is free"
            problems.append(HostProblem(host=end.name, text=text, advice="set fabric_first_port and fabric_last_port"))
        else:
            usable.append(end)
    return usable, problems


def _tool(ends: Sequence[End], settings: FabricSettings) -> tuple[str, list[str]]:
    """The tool for all hosts, and why. A stream of our own stands in for an iperf3 that is not on every host."""
    if settings.tool in (*PERFTEST, "tcp"):
        return settings.tool, []
    if settings.tool == "auto":
        able = [end for end in ends if "ib_write_bw" in end.tools and end.verbs]
        active = [end for end in able if any(port.active for port in end.verbs)]
        real = [end for end in active if not all(port.emulated for port in end.verbs)]
        if len(real) > 1 or (len(active) > 1 and len(able) == len(ends)):  # a port that is down is found, not avoided
            return "ib_write_bw", []
    lacking = [end.name for end in ends if "iperf3" not in end.tools]
    tool = "tcp" if lacking else "iperf3"
    notes = _why_no_verbs(ends, tool) if settings.tool == "auto" else []
    if lacking:
        names = f"{', '.join(lacking[:3])}{f' and {len(lacking) - 3} more' if len(lacking) > 3 else ''}"
        notes.append(f"iperf3 is missing on {names}: raybench's own TCP stream was measured instead, on all hosts")
    return tool, notes


def _why_no_verbs(ends: Sequence[End], tool: str) -> list[str]:
    """Why TCP is measured between hosts of which some have RDMA; nothing where none has."""
    reasons = []
    for end in ends:
        down = [f"{port.name} is {port.state}" for port in end.verbs if not port.active]
        if end.verbs and "ib_write_bw" not in end.tools:
            reasons.append(f"{end.name} has no ib_write_bw (package perftest)")
        elif down and len(down) == len(end.verbs):
            reasons.append(f"{end.name}: {', '.join(down)}")
        elif not end.verbs:
            reasons.append(f"{end.name} has no RDMA device")
    if not any(end.verbs for end in ends) or not reasons:
        return []
    told = "; ".join(reasons[:4]) + (f"; and {len(reasons) - 4} more" if len(reasons) > 4 else "")
    instead = "iperf3" if tool == "iperf3" else "TCP"
    needs = "it needs two hosts with an active port and ib_write_bw"
    return [f"RDMA was not measured, {needs}: {told}. {instead} was measured instead, which says nothing of RDMA"]


def _broken_verbs(ends: Sequence[End], settings: FabricSettings) -> list[HostProblem]:
    """Where TCP is measured for want of RDMA on two hosts: ports that are down while another host's are up."""
    if settings.tool != "auto":
        return []
    _, found = verbs_rails([end for end in ends if end.verbs], settings.devices)
    return [problem for problem in found if problem.fault and problem.device is not None]


def _without_tool(end: End, tool: str) -> HostProblem:
    return HostProblem(
        host=end.name,
        text=f"{tool} is not installed on it",
        advice="install the package perftest (raybench configure does), or choose --tool iperf3",
    )


def _gpu_notes(ends: Iterable[End], tool: str, settings: FabricSettings) -> list[str]:
    if settings.gpu_memory == "off":
        return []
    ways: dict[str, list[str]] = {}
    for end in ends:
        near = any(nearest_gpu(port, end.gpus) is not None for port in end.verbs)
        ways.setdefault(gpu_memory_way(end.tools[tool].options, end.gpu_vendor) if near else "", []).append(end.name)
    without = ways.pop("", [])
    if without and settings.gpu_memory == "on":
        raise UsageError(
            f"GPU memory was asked for, but {tool} of {_some(without)} is built without --use_cuda (--use_rocm "
            "for AMD's), or there is no GPU; build perftest with CUDA or ROCm, or set fabric_gpu_memory to auto"
        )
    notes = [f"GPU memory was used by {way} on {_some(names)}" for way, names in ways.items()]
    if without:
        notes.append(f"host memory was used on {_some(without)}: no GPU near, or {tool} built without its memory")
    return notes


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _gpu_notes_of_tcp(tool: str, settings: FabricSettings) -> list[str]:
    """TCP goes from host memory. Raises UsageError where GPU memory is a condition, and not a wish."""
    if settings.gpu_memory == "on":
        raise UsageError(
            f"GPU memory was asked for, but {tool} sends from host memory only; ib_write_bw between hosts with active "
            "RDMA ports can do it (tool auto takes it where two hosts have both), or set fabric_gpu_memory to auto"
        )
    return [f"host memory was used: {tool} knows no other"] if settings.gpu_memory == "auto" else []


def _leaves(ends: Sequence[End], settings: FabricSettings) -> tuple[tuple[int, ...], tuple[str, ...]]:
    if settings.leaf_size:
        groups = leaves_by_size(len(ends), settings.leaf_size)
        names = tuple(f"leaf {number}" for number in range(len(groups)))
    else:
        given = [end.options.get("fabric_leaf") for end in ends]
        groups = leaves_by_name([None if name is None else str(name) for name in given])
        names = tuple(str(given[group[0]]) for group in groups)
    leaf_of = {host: leaf for leaf, group in enumerate(groups) for host in group}
    return tuple(leaf_of[host] for host in range(len(ends))) if leaf_of else (), names


def _too_few(ends: Sequence[End], problems: Sequence[HostProblem], tool: str) -> str:
    reasons = "; ".join(f"{problem.host}: {problem.text}" for problem in problems[:4])
    return (
        f"a fabric test with {tool} needs two hosts that can take part; there {'is one' if ends else 'is none'}"
        f"{f' ({reasons})' if reasons else ''}"
    )
