"""/etc/nccl.conf: variables that every NCCL on the host reads, in a block of ours beside the user's own lines."""

from __future__ import annotations

from typing import Any

from .errors import RefusedError
from .host import Host
from .plan import ItemPlan, block, edited_file, skip
from .value import line, named

_PATH = "/etc/nccl.conf"
_ITEM = "nccl_config"
_DANGEROUS = {"NCCL_CONF_FILE"}  # NCCL would read another file, which is not this one's to say


def plan_nccl(host: Host, options: dict[str, Any]) -> ItemPlan:
    """``variables``: value by name. A variable that the file sets outside our block is the user's and stays theirs."""
    variables = options["variables"] or {}
    if not isinstance(variables, dict):
        raise RefusedError(f"nccl_config_variables is {variables!r}; give a mapping of names to values")
    wanted = {named("nccl", name, "nccl_config_variables"): line(value, f"nccl_config_variables[{name!r}]")
              for name, value in variables.items()}  # fmt: skip
    for name in sorted(_DANGEROUS & set(wanted)):
        raise RefusedError(f"nccl_config_variables sets {name}, which has no meaning in {_PATH}")
    text = host.text(_PATH) or ""
    theirs = own_lines(text)
    clashes = sorted(name for name in wanted if name in theirs and theirs[name] != wanted[name])
    lines = [f"{name}={value}" for name, value in sorted(wanted.items()) if name not in theirs]
    plan = ItemPlan(
        notes=[f"{name}={theirs[name]} stands in {_PATH} already: kept, not {wanted[name]}" for name in clashes]
    )
    if not lines and f"# BEGIN raybench {_ITEM}\n" not in text:
        return skip("every variable is set already" if wanted else "nccl_config_variables is empty", notes=plan.notes)
    plan.settings.append(edited_file(_PATH, lambda old: block(old, _ITEM, lines)))
    plan.pending.append("NCCL reads the file when a job starts; the environment of the job wins over it")
    return plan


def own_lines(text: str) -> dict[str, str]:
    """Variables set outside our block. NCCL skips lines that begin with #, and spaces around neither name nor value."""
    outside = block(text, _ITEM, [])
    pairs = [
        row.strip().split("=", 1) for row in outside.splitlines() if "=" in row and not row.lstrip().startswith("#")
    ]
    return {name.strip(): value.strip() for name, value in pairs}
