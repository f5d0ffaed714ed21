"""Errors of the fabric's readers."""

from raybench.errors import RaybenchError


class NoFigureError(RaybenchError, ValueError):
    """The output of a test holds no figure. It is then a test that could not be run, not a slow one."""
