"""Tests of the lab itself use its fixtures, and leave with the marker ``lab``."""

from .fixtures import lab, ray_lab

__all__ = ["lab", "ray_lab"]
