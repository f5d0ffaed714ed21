"""What the agents had sampled when a run broke, as text below what its ranks did."""

from raybench.config import RunConfig
from raybench.execution.account import Account
from raybench.execution.driver_channel import Logs, Mark
from raybench.execution.incidents.incident import Incident
from raybench.execution.log_files import ACTIVITY
from raybench.execution.phases import LEAVING, SEARCHING
from raybench.execution.record import RunRecord
from raybench.timeline.last_samples import MOST_MACHINES, last_samples_text
from tests.timeline.streams import messages, sampled, samples_of

HELD = {
    "gpu/0/utilization_percent": [97, 98, 100, 12],
    "gpu/0/memory_used_bytes": [2**34] * 4,
    "gpu/0/throttle_thermal": [0, 0, 1, 0],
    "gpu/0/power_watts": [300, 301.5, None, None],
    "port/mlx5_0:1/sent_bytes": [0, 10e9, 35e9, 35e9],
    "port/mlx5_0:1/symbol_errors": [5, 5, 4105, 4105],
    "port/mlx5_0:1/link_downed": [1, 1, 1, 1],
    "host/cpu/busy_seconds": [0, 2, 3.9, 4],
    "process/1/resident_bytes": [1, 1, 1, 1],
}


def test_the_last_readings_before_the_moment_stand_by_device() -> None:
    assert last_samples_text(samples_of(sampled("gpu-07", HELD)), 2.8) == (
        "last samples of gpu-07, 0.8 s before the run broke:\n"
        "  gpu 0: memory used 16 GiB, power 301.5 W, clocks lowered for the temperature yes, utilisation 100 %\n"
        "  port mlx5_0:1: sent 25 GB/s, symbol errors +4100 in 1.0 s, 1 counter that did not grow\n"
        "  host cpu: processors busy 1.90 s per second\n"
        "\n"
    )


def test_what_was_not_read_is_never_fine() -> None:
    gone = {"port/mlx5_0:1/symbol_errors": [0, 1, *[None] * 9], "host/load/one_minute": [1] * 11}
    text = last_samples_text(samples_of(sampled("a", gone)), 100.0)
    assert "port" not in text, "missing in the last readings: it has no last value"
    assert "last samples of a, 90.0 s before the run broke:" in text
    once = {"port/mlx5_0:1/symbol_errors": [7], "port/mlx5_0:1/up": [0]}
    assert "symbol errors unknown, link is active no" in last_samples_text(samples_of(sampled("a", once)), 1.0)
    anew = {"port/mlx5_0:1/symbol_errors": [7, 1]}
    assert "symbol errors unknown" in last_samples_text(samples_of(sampled("a", anew)), 1.0)


def test_nothing_is_said_of_what_came_afterwards() -> None:
    assert last_samples_text(samples_of(sampled("a", HELD, begin=10.0)), 9.0) == ""
    assert last_samples_text(samples_of(), 9.0) == ""


def test_a_clock_that_may_be_off_is_said() -> None:
    assert "0.8 s before the run broke, to 0.3 s:" in last_samples_text(samples_of(sampled("a", HELD, bound=0.3)), 2.8)


def test_of_many_machines_those_that_are_blamed_come_first() -> None:
    samples = samples_of(*(sampled(f"n{index}", HELD) for index in range(MOST_MACHINES + 20)))
    text = last_samples_text(samples, 3.0, {"n30"})
    assert text.startswith("last samples of n30,")
    assert text.count("last samples of") == MOST_MACHINES
    assert text.endswith("samples of 20 more machines are in node_samples.json\n")


def broken(*said: Mark | Logs) -> dict[str, bytes]:
    """The logs of a run whose one machine had an agent, once the driver has said all that."""
    record = RunRecord(config=RunConfig(), run_id="r", clock=100.0)
    account = Account(record=record)
    record.incidents.append(Incident(kind="time-limit", reason="it took too long"))
    account.samples.machine("node-a", ("node-a",), is_here=True)
    for message in messages(HELD):
        account.samples.take("node-a", message, message.monotonic_seconds)
    for message in said:
        account.take(message)
    account.rebuild()
    return account.record.logs


def test_the_file_of_what_ranks_did_ends_with_them() -> None:
    trouble = Mark(phase=SEARCHING, limit_seconds=1.0, began=102.8)
    leaving = Mark(phase=LEAVING, limit_seconds=1.0, began=110.0)
    logs = Logs(logs={ACTIVITY: b"rank 0 on node-a: asleep\n\n", "output-rank-0.log": b""})
    found = broken(trouble, logs, leaving)
    assert found[ACTIVITY].startswith(
        b"rank 0 on node-a: asleep\n\nlast samples of node-a, 0.8 s before the run broke:\n"
    )
    assert found["output-rank-0.log"] == b""
    assert broken(logs)[ACTIVITY] == logs.logs[ACTIVITY]
    assert ACTIVITY not in broken(trouble, Logs(logs={}))
