"""The agent of a node as Ray makes it an actor: whatever it answers is MessagePack, which Ray carries as raw bytes."""

from raybench.cluster.answers import encode_answer
from raybench.cluster.early_host import EarlyHost
from raybench.cluster.node import NodeAgent


class AgentActor:
    """The questions and orders of a driver; see ``NodeAgent``, and ``answers`` for what comes back."""

    def __init__(
        self,
        host_socket: str | None = None,
        lease_seconds: float | None = None,
        group: str | None = None,
        early: EarlyHost | None = None,
    ) -> None:
        self._agent = NodeAgent(host_socket, lease_seconds, group, early)

    def claim(self) -> bytes:
        """Take an agent that waits."""
        return encode_answer(self._agent.claim())

    def rest(self, seconds: float) -> bytes:
        """Wait for the next run."""
        self._agent.rest(seconds)
        return encode_answer(None)

    def facts(self) -> bytes:
        """What the node is."""
        return encode_answer(self._agent.facts())

    def traffic(self) -> bytes:
        """What its network devices have moved."""
        return encode_answer(self._agent.traffic())

    def reserve_port(self, address: str, port: int) -> bytes:
        """Hold a port for the rendezvous."""
        return encode_answer(self._agent.reserve_port(address, port))

    def start(self, jobs: bytes, variables: dict[str, str | None], log_limit_bytes: int) -> bytes:
        """Start the node's ranks."""
        self._agent.start(jobs, variables, log_limit_bytes)
        return encode_answer(None)

    def poll(self, seconds: float) -> bytes:
        """Events of its ranks."""
        return encode_answer(self._agent.poll(seconds))

    def positions(self) -> bytes:
        """Where its ranks are."""
        return encode_answer(self._agent.positions())

    def activities(self) -> bytes:
        """What its ranks are doing."""
        return encode_answer(self._agent.activities())

    def stop(self) -> bytes:
        """End its ranks."""
        self._agent.stop()
        return encode_answer(None)

    def logs(self) -> bytes:
        """Logs and traces of its ranks."""
        return encode_answer(self._agent.logs())

    def long_traces(self) -> bytes:
        """Traces that are too long."""
        return encode_answer(self._agent.long_traces())

    def close(self) -> bytes:
        """End all that it started."""
        self._agent.close()
        return encode_answer(None)
