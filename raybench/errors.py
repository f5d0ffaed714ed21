"""Errors of raybench. Each message says what is wrong, where, and what to do next.

RaybenchError
├── UsageError (ValueError)           wrong options, sizes, configuration        exit code 2
│   └── ClusterUnavailableError       no such cluster, or too few nodes          exit code 2
├── ProblemFoundError (RuntimeError)  the check itself failed                    exit code 1
└── IncompleteRunError (RuntimeError) something broke while measuring            exit code 3
"""


class RaybenchError(Exception):
    """Base of every error that the command line turns into a message and an exit code."""

    exit_code = 3


class UsageError(RaybenchError, ValueError):
    """The request cannot be carried out as written."""

    exit_code = 2


class ClusterUnavailableError(UsageError):
    """The cluster asked for cannot be reached or is smaller than asked for."""


class ProblemFoundError(RaybenchError, RuntimeError):
    """A check found a problem: nodes that differ, a failed verification, a regression."""

    exit_code = 1


class IncompleteRunError(RaybenchError, RuntimeError):
    """The run could not be finished. What was measured until then is kept."""

    exit_code = 3
