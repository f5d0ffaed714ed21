"""What is asked of a report, whatever its document is."""

from dataclasses import dataclass

from raybench.documents.diagnosis import Diagnosis
from raybench.installation import install_advice

INSTALL = install_advice("report")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """``drawn``: with figures, which needs matplotlib. ``brief``: what fits into a chat.

    ``diagnosis``: that of a run's logs. ``notes``: what the command has to say besides. ``diff``: with each change of a
    file.
    """

    drawn: bool = False
    brief: bool = False
    diagnosis: Diagnosis | None = None
    notes: tuple[str, ...] = ()
    diff: bool = False


def has_matplotlib() -> bool:
    """Whether figures can be drawn."""
    try:
        import matplotlib.figure  # noqa: F401 - an optional library
    except ImportError:
        return False
    return True
