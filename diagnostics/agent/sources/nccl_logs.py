"""NCCL logs as they grow: the findings of ``raybench diagnose``, as soon as the log shows them."""

import time

from diagnostics.agent.sources.base import Sample
from diagnostics.follow import Follower

LOG_INTERVAL_SECONDS = 2.0
LARGEST_SHARE = 0.0005  # of a processor, above which a log that grows all the time is looked at each second time,
SETTLED_LOOKS = 5  # once so many on end have shown nothing new: what a log tells first is told soon
MOST_SECONDS = 3.5  # between two looks: what the log shows is told within five seconds


class NcclLogs:
    """Files, folders and globs, which may appear later. ``paths`` may get more."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths
        self._follower = Follower(paths)
        self._due, self._settled = 0.0, 0

    def read(self) -> Sample:
        """The findings that are new, those that are only worth a note left out."""
        if not self._paths or time.monotonic() < self._due:
            return Sample()
        begun = time.thread_time()
        news = self._follower.look()
        taken = time.thread_time() - begun
        findings = () if news is None else tuple(one for one in news.findings if one.severity != "info")
        self._settled = 0 if findings else self._settled + 1
        if self._settled >= SETTLED_LOOKS:
            self._due = time.monotonic() + min(taken / LARGEST_SHARE, MOST_SECONDS)
        return Sample(findings=findings)

    def close(self) -> None:
        """Nothing stays open between two readings."""
