"""Errors while configuring a host.

ConfigureError
├── RefusedError (ValueError)   a value that must not be used, or cannot be right
├── HostError (OSError)         the host did not do what it was told
└── JournalError (OSError)      the first state cannot be kept safely, so nothing may be changed
"""


class ConfigureError(Exception):
    """Base of what a configure module reports instead of raising."""


class RefusedError(ConfigureError, ValueError):
    """A value from the inventory that is refused."""


class HostError(ConfigureError, OSError):
    """A command or a write on the host failed."""


class JournalError(ConfigureError, OSError):
    """The journal is not usable; nothing was changed."""
