"""What one rank measured of saving and loading in one launch. Travels as MessagePack; no torch here."""

import msgspec


class CheckpointRecord(msgspec.Struct, frozen=True, kw_only=True, tag="checkpoint"):
    """One place, layout and mode. Seconds by repetition.

    ``blocked_seconds``: how long training stood still; ``durable_seconds``: until everything was stored;
    ``load_seconds``. ``tensor_bytes`` are this rank's part, ``stored_bytes`` what it wrote. ``failed`` says why there
    is nothing to show, ``wrong_elements`` how many differ after loading, ``kept`` where the last one still is.
    ``interim``: the repetitions so far, told after each; it counts where the whole record never comes.
    """

    label: str
    blocked_seconds: tuple[float, ...] = ()
    durable_seconds: tuple[float, ...] = ()
    load_seconds: tuple[float, ...] = ()
    tensor_bytes: int = 0
    stored_bytes: int = 0
    wrong_elements: int = 0
    verified: bool = False
    failed: str | None = None
    interim: bool = False
    kept: str | None = None
