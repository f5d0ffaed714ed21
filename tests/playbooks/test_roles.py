"""Roles say what they take: README, defaults and argument specification agree, and the module knows every item."""

import re
from pathlib import Path

import pytest
import yaml
from module_utils.raybench_configure.items import ITEMS

import raybench.preflight

from .role_readme import ROLES, readme

_ADVISED = re.compile(r"raybench configure --tags ([a-z_,-]+)")
CONFIGURING = sorted({item.split(".")[0] for item in ITEMS})


@pytest.mark.parametrize("name", sorted(path.name for path in ROLES.iterdir() if path.is_dir()))
def test_the_readme_is_what_the_specification_says(name: str) -> None:
    role = ROLES / name
    assert (role / "README.md").read_text() == readme(role), "run: python -m tests.playbooks.role_readme"


@pytest.mark.parametrize("name", CONFIGURING)
def test_defaults_and_specification_agree_and_carry_the_roles_name(name: str) -> None:
    role = ROLES / name
    options = yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    defaults = yaml.safe_load((role / "defaults/main.yml").read_text())
    assert {key: option["default"] for key, option in options.items()} == defaults
    assert all(key.startswith(f"{name}_") for key in defaults)


@pytest.mark.parametrize("name", CONFIGURING)
def test_a_role_asks_for_all_its_items_and_tags_each(name: str) -> None:
    tasks = yaml.safe_load((ROLES / name / "tasks/main.yml").read_text())
    items = [item for task in tasks for item in task["raybench_configure"]["items"]]
    assert sorted(f"{name}.{item}" for item in items) == sorted(item for item in ITEMS if item.startswith(f"{name}."))
    assert [tag for task in tasks for tag in task["tags"]] == items


def test_no_two_items_share_a_tag() -> None:
    names = [item.split(".")[1] for item in ITEMS]
    assert len(names) == len(set(names))
    assert not set(names) & set(CONFIGURING)


def test_what_preflight_advises_to_configure_can_be_configured() -> None:
    sources = Path(raybench.preflight.__file__).parent.rglob("*.py")
    named = {tag for path in sources for tags in _ADVISED.findall(path.read_text()) for tag in tags.split(",")}
    assert "mtu" in named
    assert named <= {*CONFIGURING, *(item.split(".")[1] for item in ITEMS)}
