"""Errors of the lab. Each message says what is wrong, where, and what to do next."""


class LabError(Exception):
    """Base of every error that the lab raises by itself."""


class LabUnavailableError(LabError, RuntimeError):
    """The machine, or the user that runs the tests, cannot build a lab."""


class LabSetupError(LabError, RuntimeError):
    """A node, a link or a Ray node did not come up."""


class NodeDownError(LabError, RuntimeError):
    """The node was killed, so nothing can be done inside it."""
