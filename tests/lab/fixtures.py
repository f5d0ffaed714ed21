"""Fixtures for tests that need a lab: ``from .lab.fixtures import lab, ray_lab`` in a conftest brings them in.

A lab is built once for a test module, since a Ray cluster takes seconds. A test that breaks a node builds its own.
"""

from collections.abc import Iterator

import pytest

from .cluster import Lab
from .requirement import lab_available

NODES = 4


def require_lab() -> None:
    """Skip the test, saying why, where no lab can be built."""
    reason = lab_available()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Four nodes without Ray, shared by the tests of a module."""
    require_lab()
    with Lab(nodes=NODES) as built:
        yield built


@pytest.fixture(scope="module")
def ray_lab() -> Iterator[Lab]:
    """Four nodes of a Ray cluster, two CPUs each and no GPU, shared by the tests of a module."""
    require_lab()
    with Lab(nodes=NODES) as built:
        built.start_ray()
        yield built
