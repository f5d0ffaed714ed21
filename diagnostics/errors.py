"""Errors of the diagnosis. Each message says what is wrong, where, and what to do next.

DiagnosticsError
├── BadMessageError (ValueError)    a line that is no message of an agent
├── UnreadableInputError (OSError)  a path that does not exist, cannot be read or cannot be decompressed
└── UnknownRuleError (KeyError)     no rule has that id
"""


class DiagnosticsError(Exception):
    """Base of every error of this package."""


class UnreadableInputError(DiagnosticsError, OSError):
    """An input cannot be read at all. A file that is merely damaged is read as far as it goes instead."""


class UnknownRuleError(DiagnosticsError, KeyError):
    """No rule has that id."""

    def __str__(self) -> str:
        """The message without the quotes that KeyError adds."""
        return str(self.args[0])


class BadMessageError(DiagnosticsError, ValueError):
    """A line that is no message of an agent. The words do not depend on the line: they are counted by."""
