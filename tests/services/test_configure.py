"""Configuring hosts as a call. What the roles do on hosts is in tests/playbooks."""

import platform

import pytest

from raybench.errors import UsageError
from raybench.services.configure import ConfigureOptions, configure, list_of_tags


class DeclinedError(Exception):
    """This machine is not to be changed."""


def decline(intent: str) -> None:
    raise DeclinedError(intent)


@pytest.mark.parametrize(("rollback", "what"), [(False, "change settings of"), (True, "bring back the first state of")])
def test_this_machine_is_changed_only_where_that_is_agreed_to(rollback: bool, what: str) -> None:
    with pytest.raises(DeclinedError, match=f"^{what} this machine, {platform.node()}$"):
        configure(ConfigureOptions(rollback=rollback), agree=decline)
    for untouched in (ConfigureOptions(check=True), ConfigureOptions(inventories=["hosts.yml"])):
        assert untouched.intent == ""


def test_a_check_says_what_would_be_changed_on_this_machine() -> None:
    tasks: list[str] = []
    done = configure(ConfigureOptions(tags=["nofile"], check=True), agree=decline, on_task=tasks.append)
    assert (done.check, [host.name for host in done.hosts]) == (True, ["localhost"])
    assert [item.item for item in done.hosts[0].items] == ["system_limits.nofile"]
    assert done.exit_code == 0
    assert tasks


def test_a_tag_that_nothing_has_is_refused_before_anybody_is_asked() -> None:
    with pytest.raises(UsageError, match="did you mean 'nofile'"):
        configure(ConfigureOptions(tags=["nofiles"]), agree=decline)
    with pytest.raises(UsageError, match="goes with --rollback"):
        ConfigureOptions(remove_packages=True)
    assert any(line.startswith("system_limits: ") and "nofile" in line for line in list_of_tags())
