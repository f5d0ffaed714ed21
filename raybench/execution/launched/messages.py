"""What a run and the processes that a launcher started say to each other. MessagePack, one message a frame."""

from typing import Any

import msgspec


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The first word of a rank's process: who its launcher says that it is.

    ``address``: of this machine on the way to the run; ``reached``: where it found the run. ``words``: the command that
    it was started with, which all ranks must share.
    """

    launcher: str
    rank: int
    local_rank: int
    world_size: int
    ranks_on_node: int
    host: str
    address: str
    reached: str
    words: tuple[str, ...]


class Call(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A question to the node actor of a rank's process, by the name of its method."""

    number: int
    question: str
    arguments: tuple[Any, ...] = ()


class Reply(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The answer as ``answers.encode_answer`` writes it, or why there is none."""

    number: int
    data: bytes | None = None
    error: str | None = None


class Said(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Encoded events of the rank; without any, a sign of life. ``problem``: why no more will come."""

    events: list[bytes] = []
    problem: str | None = None


FromRank = Hello | Reply | Said

encode = msgspec.msgpack.Encoder().encode
decode_call = msgspec.msgpack.Decoder(Call).decode
decode_from_rank = msgspec.msgpack.Decoder(FromRank).decode
