"""The node actor as Ray makes it an actor: whatever it answers is MessagePack, which Ray carries as raw bytes."""

from raybench.execution.node_actors.answers import QUESTIONS, encode_answer
from raybench.execution.node_actors.node_actor import NodeActor
from raybench.execution.ranks.prestarted_rank_host import PrestartedRankHost


class RayNodeActor:
    """Answers the questions and orders of a driver, which are methods of ``NodeActor`` by name."""

    def __init__(
        self,
        host_socket: str | None = None,
        lease_seconds: float | None = None,
        group: str | None = None,
        early: PrestartedRankHost | None = None,
    ) -> None:
        self._actor = NodeActor(host_socket, lease_seconds, group, early)

    def answer(self, question: str, *arguments: object) -> bytes:
        """The answer as ``decode_answer`` reads it. Raises ValueError for what is no question, and what that raises."""
        if question not in QUESTIONS:
            raise ValueError(
                f"'{question}' is not a request that a node actor knows; does that node run another raybench?"
            )
        return encode_answer(getattr(self._actor, question)(*arguments))
