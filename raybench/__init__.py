"""Measure, place and check multi-node GPU clusters. The command line is ``raybench.cli``."""

__version__ = "0.1.0"
