"""Forms of what hosts return, as predicates over JSON values: a host may say anything, and only its form is read."""

import math
from collections.abc import Callable
from typing import Any

_LARGEST_NUMBER = 2.0**64
Form = Callable[[Any], bool]


def text(value: object) -> bool:
    """Whether it is a text."""
    return isinstance(value, str)


def number(value: object) -> bool:
    """Whether it is a number that is finite and no larger than a counter."""
    return isinstance(value, int | float) and abs(value) <= _LARGEST_NUMBER and math.isfinite(value)


def flag(value: object) -> bool:
    """Whether it is true or false."""
    return isinstance(value, bool)


def maybe(form: Form) -> Form:
    """That form, or null."""
    return lambda value: value is None or form(value)


def list_of(form: Form) -> Form:
    """A list of values of that form."""
    return lambda value: isinstance(value, list) and all(map(form, value))


def row_of(*forms: Form) -> Form:
    """A list of as many values, each of its form."""
    return lambda value: (
        isinstance(value, list)
        and len(value) == len(forms)
        and all(form(one) for form, one in zip(forms, value, strict=True))
    )


def by_name(form: Form) -> Form:
    """An object whose values are of that form."""
    return lambda value: isinstance(value, dict) and all(text(name) and form(one) for name, one in value.items())


def record(**forms: Form) -> Form:
    """An object with at least these members."""
    return lambda value: (
        isinstance(value, dict) and all(name in value and form(value[name]) for name, form in forms.items())
    )


def optional(**forms: Form) -> Form:
    """An object in which those of these members that are there and are not null have their form."""
    return lambda value: (
        isinstance(value, dict) and all(value.get(name) is None or form(value[name]) for name, form in forms.items())
    )


def whole_number(value: object) -> bool:
    """Whether it is a count: an integer from 0 on, no larger than a counter."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_NUMBER
