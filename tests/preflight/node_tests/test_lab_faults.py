"""A hogged, a throttled and a bit-flipping node among six hosts that are reached by real ssh, and then none."""

import pytest

from tests.lab.cluster import Lab
from tests.lab.fixtures import require_lab
from tests.measurements.nodes.faults import clean_round, faulty_round


@pytest.mark.lab
@pytest.mark.long
def test_faulty_nodes_are_found_among_six_and_nobody_else() -> None:
    require_lab()
    with Lab(nodes=6) as lab:
        if lab.ssh is None:
            pytest.skip("no sshd on this machine: apt-get install openssh-server")
        assert faulty_round(lab, 2).missed == ""
        assert clean_round(lab, 2).missed == ""
