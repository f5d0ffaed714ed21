"""Errors of reports."""

from raybench.errors import RaybenchError


class MissingLibraryError(RaybenchError, ImportError):
    """A library that only reports need is not installed; the message says how to install it."""
