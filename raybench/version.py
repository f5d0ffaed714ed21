"""The version of this raybench."""

__version__ = "0.1.0"
