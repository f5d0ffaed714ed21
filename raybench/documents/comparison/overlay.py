"""Curves of several results over each other, as they are drawn; kept in no file."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One line: ``side`` is the result that it is of, counted from 0; ``name`` what it is of there."""

    side: int
    label: str
    name: str
    places: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Lines that share their axes. ``sizes``: the horizontal one is message size, in bytes.

    ``emulated``: a result of it is of emulated nodes.
    """

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    sizes: bool = False
    emulated: bool = False
