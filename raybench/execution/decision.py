"""When a driver is asked to end, and when it is killed. Pure."""

from dataclasses import dataclass
from typing import Literal

_ORDER_SECONDS = 12.0  # from being asked to end to being killed
SILENT_SECONDS = 4.0  # a driver that beats no more for so long will not do as it is asked
_GRACE_SECONDS = 10.0  # after the limit of a phase, which the driver keeps by itself, ...
_SILENT_GRACE_SECONDS = 4.0  # ... and where it does not beat


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a decision rests on, in seconds."""

    signals: int = 0
    suspects: bool = False  # a process of the run is overdue
    headless: bool = False  # the head does not answer, and the driver has not noticed by itself
    deaf: bool = False  # the driver itself is
    leaving: bool = False
    silent: float = 0.0  # since the driver's last sign of life
    over: float = -1.0  # past the limit of the phase; negative before it
    asked: float | None = None  # since the driver was asked to end in order


def decide(now: Situation) -> Literal["wait", "ask", "kill"]:
    """Whether to leave the driver alone, to ask it to end in order, or to kill it."""
    if now.signals > 1:
        return "kill"
    if now.asked is not None:
        unable = now.silent > SILENT_SECONDS and now.asked > SILENT_SECONDS
        # All is brought home, and leaving waits for what is stopped. Node actors hear it without a head, too.
        through = now.leaving and now.suspects
        return "kill" if unable or through or now.asked > _ORDER_SECONDS else "wait"
    if now.deaf and not now.leaving:
        return "kill"
    if now.signals or ((now.suspects or now.headless) and not now.leaving):
        return "ask"
    grace = _SILENT_GRACE_SECONDS if now.silent > SILENT_SECONDS else _GRACE_SECONDS
    return "kill" if now.over > grace else "wait"
