"""Copies between the GPUs of the node: see ``transfer``."""

from raybench.benchmarks.node_tests.transfer import peers as run

__all__ = ["run"]
