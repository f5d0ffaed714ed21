"""Lists of nodes by state, as schedulers and shells take them."""

import json
from pathlib import Path
from typing import Any

import pytest

from raybench.errors import UsageError
from raybench.host_ranges import expanded
from raybench.nodes.lists import slurm_hostlist
from raybench.services.nodes.listing import node_list

from .reports import report


@pytest.mark.parametrize(
    ("names", "written"),
    [
        (["gpu-01", "gpu-02", "gpu-03", "login"], "gpu-[01-03],login"),
        (["gpu-01", "gpu-02"], "gpu-01,gpu-02"),
        (["r1n1a", "r1n2a", "r1n3a"], "r1n1a,r1n2a,r1n3a"),
        (["gpu-1.site", "gpu-2.site", "gpu-3.site"], "gpu-1.site,gpu-2.site,gpu-3.site"),
        (["a-1", "a-2", "a-3", "a-5", "b-7", "b-8", "b-9"], "a-[1-3,5],b-[7-9]"),
        ([], ""),
    ],
)
def test_a_host_list_is_what_slurm_reads(names: list[str], written: str) -> None:
    assert slurm_hostlist(names) == written
    assert set(expanded(written)) == set(names)


def test_the_list_of_a_report(tmp_path: Path) -> None:
    found = report({"n1": "healthy", "n2": "drain", "n3": "unknown", "n4": "drain", "n5": "drain"})
    (tmp_path / "preflight.json").write_text(json.dumps(found.to_json()))
    assert node_list(tmp_path, ["drain"], "slurm") == "n[2,4-5]"
    assert node_list(tmp_path / "preflight.json", ["drain", "unknown"], "plain") == "n2\nn4\nn5\nn3"
    assert node_list(tmp_path, [], "slurm") == "healthy: n1\ndegraded:\ndrain: n[2,4-5]\nunknown: n3"
    listed: Any = node_list(tmp_path, ["drain"], "json")
    assert list(listed) == ["n2", "n4", "n5"]
    assert listed["n2"]["reasons"][0]["check"] == "gpu-rows"


def test_a_report_of_before_there_were_states_is_refused(tmp_path: Path) -> None:
    content = report({"n1": "healthy"}).to_json()
    del content["hosts"][0]["node"], content["summary"]["nodes"]
    (tmp_path / "preflight.json").write_text(json.dumps(content))
    with pytest.raises(UsageError, match="older raybench"):
        node_list(tmp_path, ["healthy"], "slurm")


@pytest.mark.parametrize("name", ["gpu-01\nNodeName=all", "a b", "n[1-9]", "a,b", "--force", "", "\x1b[31m"])
def test_a_name_that_a_list_cannot_hold_is_refused_and_shown_on_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / "preflight.json"
    path.write_text(json.dumps(report({"n1": "healthy", name: "drain"}).to_json()))
    for form in ("slurm", "plain"):
        with pytest.raises(UsageError, match="which no list can hold"):
            node_list(path, ["drain"], form)
        assert node_list(path, ["healthy"], form) == "n1"
    overview = node_list(path, [], "slurm")
    assert isinstance(overview, str)
    assert len(overview.split("\n")) == 4
