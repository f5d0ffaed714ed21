"""What is asked of a report, whatever its document is."""

from dataclasses import dataclass

from raybench.documents.diagnosis import Diagnosis


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """``figures``: with figures, which needs matplotlib; None where it is installed. ``brief``: what fits into a chat.

    ``diagnosis``: that of a run's logs. ``notes``: what the command has to say besides. ``diff``: with each change of a
    file.
    """

    figures: bool | None = False
    brief: bool = False
    diagnosis: Diagnosis | None = None
    notes: tuple[str, ...] = ()
    diff: bool = False

    @property
    def drawn(self) -> bool:
        """Whether figures are drawn. Asked by what has some: it takes half a second to import matplotlib."""
        return has_matplotlib() if self.figures is None else self.figures


def how_to_install() -> str:
    """What installs the libraries of reports."""
    from raybench.installation import install_advice  # reads package metadata

    return install_advice("report")


def has_matplotlib() -> bool:
    """Whether figures can be drawn."""
    try:
        import matplotlib.figure  # noqa: F401 - an optional library
    except ImportError:
        return False
    return True
