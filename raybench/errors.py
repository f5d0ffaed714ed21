"""Errors of raybench. Each message says what is wrong, where, and what to do next.

RaybenchError
├── UsageError (ValueError)           wrong options, sizes, configuration        exit code 2
│   └── ClusterUnavailableError       no such cluster, or too few nodes          exit code 2
│       └── NodeMissingError          a node of that name is not in the cluster  exit code 2
├── ProblemFoundError (RuntimeError)  the check itself failed                    exit code 1
├── IncompleteRunError (RuntimeError) something broke while measuring            exit code 3
└── MissingLibraryError (ImportError) an optional library is not installed       exit code 3
"""

from collections.abc import Iterable

GLOO_INSTEAD = "Use --backend gloo to measure between CPUs, or join nodes with GPUs"
GPUS_ONLY = "Join nodes with GPUs"  # where NCCL itself is what is measured


class RaybenchError(Exception):
    """Base of every error that the command line turns into a message and an exit code."""

    exit_code = 3


class UsageError(RaybenchError, ValueError):
    """The request cannot be carried out as written."""

    exit_code = 2


class ClusterUnavailableError(UsageError):
    """The cluster asked for cannot be reached or is smaller than asked for."""


class NodeMissingError(ClusterUnavailableError):
    """A node that was asked for by its name is not in the cluster, or there are several of that name."""

    def __init__(self, node: str, why: str) -> None:
        super().__init__(node, why)  # so that it can be pickled
        self.node, self.why = node, why

    def __str__(self) -> str:
        return f"the node {self.node} {self.why}"


class ProblemFoundError(RaybenchError, RuntimeError):
    """A check found a problem: nodes that differ, a failed verification, a regression."""

    exit_code = 1


class IncompleteRunError(RaybenchError, RuntimeError):
    """The run could not be finished. What was measured until then is kept."""

    exit_code = 3


class MissingLibraryError(RaybenchError, ImportError):
    """A library that only this needs is not installed; the message says how to install it."""


def unknown_name(what: str, name: str, known: Iterable[str], *, else_: str = "") -> UsageError:
    """The error for a name that is not among the ``known``: with the nearest of them, and all.

    ``else_``: what to do about one that is right and not among them.
    """
    shown = " ".join(name.split())  # of a file that others wrote: no lines of its own
    return UsageError(f"there is no {what} '{shown}'; {else_ and else_ + '; '}{known_names(name, known)}")


def unknown_value(option: str, value: str | None, known: Iterable[str | None]) -> UsageError:
    """The error for a value that ``option`` (``dtype``) does not take. A None among the ``known`` is not listed."""
    names = known_names(value or "", [name for name in known if name is not None])
    return UsageError(f"--{option.replace('_', '-')} '{value}' is not known; {names}")


def known_names(name: str, known: Iterable[str]) -> str:
    """``did you mean 'nccl'? There are: nccl, gloo``; without the question where none is near."""
    names = list(known)
    near = nearest(name, names)
    guess = f"did you mean {' or '.join(repr(one) for one in near)}? There are" if near else "there are"
    return f"{guess}: {', '.join(names)}"


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Those of ``known`` that a slip of the finger turns into ``name``, the most alike first; at most three."""
    import difflib  # of use only here, and no command should wait for it

    by_form = {_form(one): one for one in reversed(list(known))}
    if _form(name) in by_form:
        return [by_form[_form(name)]]
    turned = [one for form, one in by_form.items() if sorted(form) == sorted(_form(name))]
    if turned:  # rnu, pu: of so few letters, two that changed places are half of them
        return turned[:3]
    found = difflib.get_close_matches(_form(name), by_form, n=3, cutoff=_LEAST_LIKENESS)
    begun = [form for form in found if form.startswith(_form(name))]  # node is nodes, not min_nodes
    return [by_form[form] for form in begun or found]


_LEAST_LIKENESS = 0.65  # dpp is two thirds of ddp


def _form(name: str) -> str:
    return name.strip().lower().replace("-", "").replace("_", "")
