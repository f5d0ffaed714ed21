"""What a node's actor answers the driver: MessagePack, with a type for each question, and nothing but data."""

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict

import msgspec

from raybench.benchmarks.rank.progress import PHASES
from raybench.errors import IncompleteRunError
from raybench.execution.node_actors.messages import RankActivity, RankPosition
from raybench.traffic import Counters

_DEEPEST_FACT = 8


class AnswerError(IncompleteRunError):
    """A node sent what is no answer to the question."""


class _Facts(TypedDict):
    """What must be so in the facts of a node for a plan to be made of them; there is more in them."""

    visible_devices: str | None
    gpu_ids: list[str]
    gpus: list[dict[str, str]]
    hostname: NotRequired[str]
    interfaces: NotRequired[dict[str, str]]
    settings: NotRequired[dict[str, str]]
    rdma_ports: NotRequired[list[dict[str, str | float]]]


_TYPES: Mapping[str, Any] = {
    "activities": list[RankActivity],
    "beat": None,
    "claim": bool,
    "clock": Annotated[float, msgspec.Meta(ge=0, le=1e11)],
    "close": None,
    "end_agent": list[bytes],
    "facts": dict[str, Any],
    "logs": dict[str, bytes],
    "long_traces": dict[str, tuple[int, int]],
    "poll": list[bytes],
    "positions": list[RankPosition],
    "reserve_port": Annotated[int, msgspec.Meta(ge=1, le=65535)],
    "rest": None,
    "start": None,
    "start_agent": None,
    "stop": None,
    "traffic": Counters,
}
QUESTIONS = frozenset(_TYPES)
_DECODERS = {question: msgspec.msgpack.Decoder(kind) for question, kind in _TYPES.items()}

encode_answer = msgspec.msgpack.Encoder().encode


def decode_answer(question: str, data: object) -> Any:
    """The answer to a question, which is the name of the node actor's method. Raises AnswerError for anything else."""
    try:
        if not isinstance(data, bytes):
            raise msgspec.ValidationError(f"Expected bytes, got {type(data).__name__}")
        answer = _DECODERS[question].decode(data)
        _check(question, answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AnswerError(
            f"what it answered to '{question}' cannot be read ({error}); is raybench of another version there?"
        ) from error
    return answer


def _check(question: str, answer: Any) -> None:
    if question == "facts":
        _check_depth(answer, _DEEPEST_FACT)
        msgspec.convert(answer, _Facts)
    elif question == "positions":
        strange = [position.phase for position in answer if position.phase not in PHASES]
        if strange:
            raise msgspec.ValidationError(f"There is no phase {strange[0][:40]!r}")
        if any(min(one.benchmark, one.point, one.block, one.iteration) < 0 for one in answer):
            raise msgspec.ValidationError("A negative count")


def _check_depth(value: Any, left: int) -> None:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if parts and not left:
        raise msgspec.ValidationError("Too deep")
    for part in parts:
        _check_depth(part, left - 1)
