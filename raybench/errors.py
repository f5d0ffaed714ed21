"""Errors of raybench. Each message says what is wrong, where, and what to do next.

RaybenchError
├── UsageError (ValueError)           wrong options, sizes, configuration        exit code 2
│   └── ClusterUnavailableError       no such cluster, or too few nodes          exit code 2
├── ProblemFoundError (RuntimeError)  the check itself failed                    exit code 1
└── IncompleteRunError (RuntimeError) something broke while measuring            exit code 3
"""

from collections.abc import Iterable


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


def unknown_name(what: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that is not among the ``known``: with the nearest of them, and all."""
    import difflib  # noqa: PLC0415 - of use only here, and no command should wait for it

    names = list(known)
    lower = {one.lower(): one for one in reversed(names)}
    near = [lower[found] for found in difflib.get_close_matches(name.strip().lower(), lower, n=3, cutoff=0.7)]
    guess = f"did you mean {' or '.join(repr(one) for one in near)}? There are" if near else "there are"
    return UsageError(f"there is no {what} '{name}'; {guess}: {', '.join(names)}")
