"""MLX's ring: what it refuses before anything is sent, what runs refuse, and real ranks over it."""

import json
import os
import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from raybench.benchmarks.base import UnsupportedError
from raybench.benchmarks.events import PointMeasured
from raybench.benchmarks.mlx_ring import meeting
from raybench.benchmarks.mlx_ring.ring import Ring
from raybench.benchmarks.spec import BenchmarkSpec
from raybench.config import RunConfig
from raybench.errors import UsageError
from raybench.execution.needs import check_embedded, plan_over
from tests.benchmarks.gloo_ranks import failures_of, points_of, run_ranks, skipped_of
from tests.execution.test_placement import candidates

DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "int8", "uint8")


def spec(name: str, reduce_op: str | None = None, kind: str = "collective", **more: object) -> BenchmarkSpec:
    return BenchmarkSpec(
        name=name, kind=kind, sizes=(1024, 2**20), reduce_op=reduce_op, warmup=1, iterations=4, blocks=2, **more
    )


@pytest.mark.parametrize(
    ("name", "reduce_op", "why"),
    [
        ("broadcast", None, "MLX has no broadcast: it has all_reduce"),
        ("all_reduce", "avg", "MLX has no all_reduce with avg: it has sum, max, min"),
        ("all_reduce", "prod", "MLX has no all_reduce with prod"),
        ("reduce_scatter", "max", "MLX has no reduce_scatter with max: it has sum"),
        ("p2p_matrix", None, "connects neighbours only"),
        ("ddp", None, "ddp runs on torch.distributed, not on MLX"),
    ],
)
def test_what_mlx_has_no_operation_for_is_refused_before_anything_is_sent(
    name: str, reduce_op: str | None, why: str
) -> None:
    with pytest.raises(UnsupportedError, match=why):
        Ring(core=None, group=None).refuse(spec(name, reduce_op))


@pytest.mark.parametrize(("name", "reduce_op"), [("all_reduce", "min"), ("all_gather", None), ("send_recv", None)])
def test_what_it_may_have_is_not_refused(name: str, reduce_op: str | None) -> None:
    Ring(core=None, group=None).refuse(spec(name, reduce_op))


def test_a_run_over_mlx_measures_each_collective_once_and_out_of_place() -> None:
    plan = RunConfig(suite="collectives", backend="mlx").plan("mlx")
    assert [one.name for one in plan].count("all_gather") == 1
    assert not any(one.in_place for one in plan)
    assert [one.name for one in RunConfig(suite="collectives").plan("gloo")].count("all_gather") == 2


def test_what_a_run_over_mlx_cannot_be_ends_it_before_it_begins() -> None:
    with pytest.raises(UsageError, match="ddp is PyTorch's"):
        RunConfig(suite="training", backend="mlx").plan("mlx")
    with pytest.raises(UsageError, match="this run has one: give --nodes 2"):
        plan_over(RunConfig(backend="mlx"), candidates(0))
    assert plan_over(RunConfig(backend="mlx", gpus_per_node=2), candidates(0)).world_size == 2


def test_without_mlx_the_run_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raybench.execution.needs.importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"mlx is not installed.*pip install"):
        check_embedded(RunConfig(backend="mlx", nodes=2, suite="all_reduce"))
    monkeypatch.undo()
    check_embedded(RunConfig(backend="gloo", nodes=2, suite="all_reduce"))


class Refusing(dict[str, bytes]):
    """A store that tries to connect to the rank whose key it was given, when another's is asked for."""

    def set(self, key: str, value: str) -> None:
        self[key] = value.encode()

    def get(self, key: str) -> bytes:  # type: ignore[override]
        address, _, port = self["raybench/mlx/0"].decode().rpartition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((address, int(port)), timeout=5)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((address, int(port)))
        return self.setdefault(key, b"127.0.0.1:9")


def test_a_port_that_is_held_answers_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """MLX of the next rank would take the connection for one to MLX, and both wait for ever."""
    hosts: list[str] = []

    class Distributed:
        @staticmethod
        def init(**_: object) -> str:
            hosts.append(Path(os.environ["MLX_HOSTFILE"]).read_text(encoding="ascii"))
            return "group"

    monkeypatch.setattr(meeting, "mlx_core", lambda: SimpleNamespace(distributed=Distributed))
    assignment = SimpleNamespace(rank=0, world_size=2, master_address="127.0.0.1")
    store = Refusing()
    assert meeting.meet(cast("Any", assignment), cast("Any", store)) == "group"
    assert json.loads(hosts[0]) == [[store["raybench/mlx/0"].decode()], ["127.0.0.1:9"]]


@pytest.mark.long
def test_real_ranks_measure_and_verify_every_type_over_the_ring() -> None:
    pytest.importorskip("mlx.core")
    plan = [spec("all_reduce", op, dtype=dtype) for dtype in DTYPES for op in ("sum", "max", "min")]
    plan += [spec("all_gather", dtype=dtype) for dtype in DTYPES]
    plan += [spec("send_recv", kind="p2p", dtype=dtype) for dtype in DTYPES]
    plan += [spec("reduce_scatter", "sum"), spec("broadcast", root=0)]
    ranks = run_ranks(3, plan, backend="mlx", seconds=120)
    assert failures_of(ranks) == []
    for heard in ranks:
        for index in range(len(plan) - 2):
            measured = points_of(heard, index)
            assert [one.message_bytes >= 1000 for one in measured] == [True, True], plan[index]
            assert [one.wrong_elements for one in measured] == [0, 0], plan[index]
        assert "sum_scatter" in str(skipped_of(heard, len(plan) - 2))
        assert "MLX has no broadcast" in str(skipped_of(heard, len(plan) - 1))


@pytest.mark.long
def test_an_element_that_arrives_wrong_is_counted_on_the_rank_that_has_it() -> None:
    pytest.importorskip("mlx.core")

    def sabotage(rank: int) -> None:
        if rank == 1:
            import mlx.core

            right = mlx.core.distributed.all_sum
            mlx.core.distributed.all_sum = lambda *given, **more: mlx.core.concatenate(
                [right(*given, **more)[:-1], mlx.core.array([0.5])]
            )

    ranks = run_ranks(2, [spec("all_reduce", "sum")], backend="mlx", sabotage=sabotage)
    assert [[one.wrong_elements for one in points_of(heard, 0)] for heard in ranks] == [[0, 0], [1, 1]]


@pytest.mark.long
def test_the_others_end_when_a_rank_dies() -> None:
    pytest.importorskip("mlx.core")

    def sabotage(rank: int) -> None:
        if rank == 1:
            import raybench.benchmarks.messages.collective as driver

            driver.write_segments = lambda *_: os._exit(9)

    began = time.monotonic()
    ranks = run_ranks(2, [spec("all_reduce", "sum")], backend="mlx", sabotage=sabotage)
    assert time.monotonic() - began < 30
    assert [one.rank for one in failures_of(ranks)] == [0]
    assert not any(isinstance(one, PointMeasured) for one in ranks[0])
