"""The ranks of a job: a row for each that was seen, and those that no line names."""

from diagnostics import transport
from diagnostics.facts import JobFacts
from diagnostics.findings import RankRow


def missing_ranks(facts: JobFacts) -> tuple[int, ...]:
    """World ranks that no line names, where at least half of the ranks are named."""
    world = facts.world
    if world is None or facts.starts_omitted or 2 * len(world.members) < world.nranks or world.nranks > 10**6:
        return ()
    return tuple(rank for rank in range(world.nranks) if rank not in world.members)


def rank_rows(facts: JobFacts) -> tuple[RankRow, ...]:
    """One row for each rank of the world communicator that was seen."""
    world = facts.world
    if world is None:
        return ()
    layer = transport.link_layer(facts)
    rows = []
    for rank in sorted(world.members):
        member = world.members[rank]
        process = facts.processes.get(member.process)
        networks = [transport.network_class(name, layer) for name in process.networks] if process else []
        rows.append(
            RankRow(
                rank=rank,
                host=member.process[0] or None,
                pid=member.process[1] or None,
                device=member.nvml or member.cuda,
                network=networks[-1] if networks else None,
                nics=len(process.devices) if process and process.devices is not None else None,
                transports=tuple(sorted(process.transports)) if process else (),
                initialised=True if member.completed else (False if member.started else None),
            )
        )
    return tuple(rows)
