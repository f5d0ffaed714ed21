"""Write the README of every role from its argument specifications: ``python .ci/role_readme.py [--check]``."""

import argparse
import re
import sys
from pathlib import Path
from typing import Any

import yaml

ROLES = Path(__file__).resolve().parents[1] / "playbooks" / "roles"


def readme(name: str, specs: dict[str, Any]) -> str:
    """The README of a role: what it does, and its variables with types and defaults."""
    main = specs["argument_specs"]["main"]
    lines = [f"# {name}", "", f"{main['short_description'].rstrip('.')}.", ""]
    description = main.get("description", [])
    for paragraph in [description] if isinstance(description, str) else description:
        lines += [_plain(paragraph), ""]
    options = main.get("options") or {}
    if options:
        lines += ["Set these in the inventory, for all hosts, a group or a host.", ""]
        lines += ["| variable | type | default | meaning |", "|---|---|---|---|"]
        lines += [_row(variable, option) for variable, option in options.items()]
        lines.append("")
    return "\n".join([*lines, "Generated from meta/argument_specs.yml: `make readmes` writes it anew.", ""])


def _row(variable: str, option: dict[str, Any]) -> str:
    kind = option.get("type", "str")
    if option.get("elements"):
        kind += f" of {option['elements']}"
    default = "required" if option.get("required") else f"`{_literal(option['default'])}`" if "default" in option else ""
    description = option.get("description", "")
    text = " ".join([description] if isinstance(description, str) else description)
    if option.get("choices"):
        text += f" One of {', '.join(map(str, option['choices']))}."
    return f"| `{variable}` | {kind} | {default} | {_plain(text)} |"


def _literal(value: Any) -> str:
    if value == "":
        return '""'
    return yaml.safe_dump(value, default_flow_style=True, width=1000).strip().removesuffix("...").strip()


def _plain(text: str) -> str:
    """Ansible's markup (``C(x)``, ``O(x)``, ``V(x)``) as Markdown, and nothing that would end a table's cell."""
    return re.sub(r"\b[COVIB]\(([^)]*)\)", r"`\1`", " ".join(text.split())).replace("|", "\\|")


def main() -> int:
    """Write or compare. Returns an exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a README is not current")
    check = parser.parse_args().check
    stale = []
    for path in sorted(ROLES.glob("*/meta/argument_specs.yml")):
        role = path.parents[1]
        text = readme(role.name, yaml.safe_load(path.read_text(encoding="utf-8")))
        target = role / "README.md"
        if not target.is_file() or target.read_text(encoding="utf-8") != text:
            stale.append(role.name)
            if not check:
                target.write_text(text, encoding="utf-8")
    if check and stale:
        sys.stderr.write(f"not current: {', '.join(stale)}; run make readmes\n")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
