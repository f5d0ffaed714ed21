"""NCCL logs as they grow: the findings of ``raybench diagnose``, as soon as the log shows them."""

from diagnostics.agent.sources.base import Sample
from diagnostics.follow import Follower

LOG_INTERVAL_SECONDS = 2.0


class NcclLogs:
    """Files, folders and globs, which may appear later. ``paths`` may get more."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths
        self._follower = Follower(paths)

    def read(self) -> Sample:
        """The findings that are new, those that are only worth a note left out."""
        if not self._paths:
            return Sample()
        news = self._follower.look()
        if news is None:
            return Sample()
        return Sample(findings=tuple(one for one in news.findings if one.severity != "info"))

    def close(self) -> None:
        """Nothing stays open between two readings."""
