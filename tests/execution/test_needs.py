"""What a run needs of the nodes that there are: those that it names, and others to isolate a suspect with."""

import pickle

import pytest

from raybench.config import RunConfig
from raybench.errors import NodeMissingError, UsageError
from raybench.execution.needs import plan_over
from tests.execution.test_placement import candidates


def test_a_run_takes_the_nodes_that_it_names_in_their_order() -> None:
    plan = plan_over(RunConfig(only_nodes=("node3", "node1")), candidates(0, 0, 0, 0))
    assert [node.name for node in plan.nodes] == ["node1", "node3"]
    assert plan.world_size == 2


@pytest.mark.parametrize(("there", "words"), [((0, 0), "is not in the cluster"), ((), "is not in the cluster")])
def test_a_node_that_is_not_there_is_named(there: tuple[int, ...], words: str) -> None:
    with pytest.raises(NodeMissingError, match=f"node node3 {words}") as raised:
        plan_over(RunConfig(only_nodes=("node3",)), candidates(*there))
    assert raised.value.node == "node3"
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_two_nodes_of_one_name_cannot_be_told_apart() -> None:
    twice = (*candidates(0, 0), *candidates(0, 0))
    with pytest.raises(NodeMissingError, match="is there 2 times"):
        plan_over(RunConfig(only_nodes=("node1",)), twice)


def test_isolating_needs_a_second_node() -> None:
    with pytest.raises(UsageError, match="this run has 1 node with 1 rank"):
        plan_over(RunConfig(isolate=True), candidates(0))
    assert plan_over(RunConfig(isolate=True), candidates(0, 0)).world_size == 2
