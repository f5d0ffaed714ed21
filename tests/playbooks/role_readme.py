"""READMEs of roles, made from meta/argument_specs.yml: ``python -m tests.playbooks.role_readme`` writes them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROLES = Path(__file__).parents[2] / "playbooks" / "roles"


def readme(role: Path) -> str:
    """The README of a role: what it does, its variables with type, default and meaning, and its tags."""
    specification = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]
    options = specification.get("options", {})
    lines = [f"# {role.name}", "", specification["short_description"] + ".", ""]
    description = specification.get("description", [])
    lines += [*([description] if isinstance(description, str) else description), ""]
    if options:
        lines += ["| variable | type | default | meaning |", "|---|---|---|---|"]
        lines += [_row(name, option) for name, option in options.items()]
    else:
        lines.append("It takes no variables.")
    tags = sorted(set(_tags(role)) - {"always"})
    if tags:
        lines += ["", f"Tags: {', '.join([role.name, *tags])}."]
    return "\n".join([*lines, "", "Made from meta/argument_specs.yml by `python -m tests.playbooks.role_readme`.", ""])


def with_specification() -> list[Path]:
    """Roles that have an argument specification, in order."""
    return sorted(path.parents[1] for path in ROLES.glob("*/meta/argument_specs.yml"))


def _row(name: str, option: dict[str, Any]) -> str:
    kind = option.get("type", "str")
    if "elements" in option:
        kind += f" of {option['elements']}"
    if "choices" in option:
        kind += f": {', '.join(map(str, option['choices']))}"
    default = f"`{json.dumps(option['default'])}`" if "default" in option else "(none)"
    description = option.get("description", "")
    meaning = " ".join(description) if isinstance(description, list) else str(description)
    return f"| `{name}` | {kind} | {default} | {meaning.replace('C(', '`').replace(')', '`', meaning.count('C('))} |"


def _tags(role: Path) -> Iterator[str]:
    tasks = role / "tasks" / "main.yml"
    for task in yaml.safe_load(tasks.read_text()) or [] if tasks.is_file() else []:
        tags = task.get("tags", [])
        yield from [tags] if isinstance(tags, str) else tags


if __name__ == "__main__":
    for each in with_specification():
        (each / "README.md").write_text(readme(each))
