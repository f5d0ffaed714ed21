#!/usr/bin/python
"""The Python environment of a Ray node, built on the host from the controller's versions."""

from __future__ import annotations

DOCUMENTATION = r"""
module: raybench_environment
short_description: Build the Python environment of a Ray node
description:
  - Makes a virtual environment in the node's folder and installs the locked versions and raybench's wheel, from the
    host's own package index or from a folder of wheels. Nothing changes where it is there with the same content.
author: The raybench authors
options:
  folder:
    description: The node's folder, with C(environment/lock.txt) and the wheel in it.
    type: path
    required: true
  wheel:
    description: File name of raybench's wheel.
    type: str
    required: true
  roots:
    description: Packages to install, in the versions of the lock.
    type: list
    elements: str
    required: true
  requirements:
    description: More packages, such as V(my-plugin==1.2).
    type: list
    elements: str
    default: []
  digest:
    description: Digest of the lock and the wheel.
    type: str
    required: true
  minor:
    description: Minor version of Python that the environment must have, such as V(3.11).
    type: str
    required: true
  wheels:
    description: Folder of wheels on the host, to install from that and from no index.
    type: path
    default: ""
  seconds:
    description: Time limit of the installation.
    type: int
    default: 1800
"""

EXAMPLES = r"""
- name: Build the environment
  raybench_environment:
    folder: /var/lib/raybench
    wheel: raybench-0.1.0-py3-none-any.whl
    roots: [ray, torch, numpy]
    digest: 0123456789abcdef
    minor: "3.11"
"""

RETURN = r"""
python:
  description: The environment's interpreter.
  returned: always
  type: str
"""

import contextlib
import hashlib
import json
import os
import shutil

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.raybench_host.command import Ended, run

ARGUMENTS = {
    "folder": {"type": "path", "required": True},
    "wheel": {"type": "str", "required": True},
    "roots": {"type": "list", "elements": "str", "required": True},
    "requirements": {"type": "list", "elements": "str", "default": []},
    "digest": {"type": "str", "required": True},
    "minor": {"type": "str", "required": True},
    "wheels": {"type": "path", "default": ""},
    "seconds": {"type": "int", "default": 1800},
}
_VENV_SECONDS = 120


class BuildError(Exception):
    """Why there is no environment, and what to do."""


def main() -> None:
    """Answer one call of Ansible's."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    params = module.params
    content = json.dumps([params["digest"], params["roots"], params["requirements"], params["minor"]])
    name = f"venv-{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    target, link = os.path.join(params["folder"], name), os.path.join(params["folder"], "venv")
    python = os.path.join(link, "bin", "python")
    if os.path.exists(os.path.join(target, "complete")) and os.path.realpath(link) == os.path.realpath(target):
        module.exit_json(changed=False, python=python)
    if module.check_mode:
        module.exit_json(changed=True, python=python)
    try:
        build(params, target)
        switch(params["folder"], link, name)
    except (BuildError, OSError) as error:
        module.fail_json(msg=f"the Python environment cannot be built: {error}")
    module.exit_json(changed=True, python=python)


def build(params: dict, target: str) -> None:
    """Make the environment at ``target``. One that was begun and not completed is made anew."""
    if os.path.exists(os.path.join(target, "complete")):
        return
    packages = packages_of(params)
    shutil.rmtree(target, ignore_errors=True)
    base = base_python(params["minor"])
    made = called([base, "-m", "venv", target], _VENV_SECONDS)
    if made.status != 0:
        raise BuildError(
            f"{base} -m venv failed ({last_words(made)}); install python{params['minor']}-venv, or name a Python that "
            "is complete with raybench_python"
        )
    install(packages, params, os.path.join(target, "bin", "python"))
    with open(os.path.join(target, "complete"), "w", encoding="ascii") as file:
        file.write(params["digest"])


def packages_of(params: dict) -> list:
    """The wheel, the roots and the further requirements. Raises BuildError for what pip would take for an option."""
    wheel = os.path.join(params["folder"], "environment", params["wheel"])
    packages = [wheel, *params["roots"], *params["requirements"]]
    for package in packages:
        if package.startswith("-"):
            raise BuildError(f"{package!r} is not a package; ray_node_requirements holds packages, not options of pip")
    return packages


def install(packages: list, params: dict, python: str) -> None:
    """Install packages in the locked versions."""
    folder = os.path.join(params["folder"], "environment")
    source = ["--no-index", "--find-links", params["wheels"]] if params["wheels"] else []
    words = [python, "-m", "pip", "install", "--no-input", "--quiet", "--disable-pip-version-check", *source]
    answer = called([*words, "--constraint", os.path.join(folder, "lock.txt"), *packages], params["seconds"])
    if answer.status != 0:
        way_out = (
            "add what is missing to raybench_wheelhouse"
            if params["wheels"]
            else "does this host reach a package index? Else fill a folder with 'pip download' and name it with "
            "raybench_wheelhouse"
        )
        raise BuildError(f"pip: {last_words(answer)}; {way_out}")


def base_python(minor: str) -> str:
    """An interpreter of the minor version. Raises BuildError."""
    path = f"{os.environ.get('PATH', '')}:/usr/local/bin:/usr/bin"
    for name in (f"python{minor}", "python3"):
        found = shutil.which(name, path=path)
        test = f"import sys; sys.exit('%d.%d' % sys.version_info[:2] != {minor!r})"
        if found and called([found, "-c", test], 20).status == 0:
            return found
    raise BuildError(
        f"there is no Python {minor} here, which the controller has and Ray needs on all nodes alike; install "
        f"python{minor}, or name another Python on all hosts with raybench_python"
    )


def called(words: list, seconds: int) -> Ended:
    """A program run to its end, its errors among its output."""
    return run(words, seconds, os.environ, together=True)


def last_words(ended: Ended) -> str:
    """The end of what a program said, and why it was ended, on one line."""
    lines = f"{ended.said}\n{ended.reason}".strip().splitlines()
    telling = [line for line in lines if line.startswith("ERROR")] or lines
    return " | ".join(telling[-2:])[:600]


def switch(folder: str, link: str, name: str) -> None:
    """Point ``venv`` at the new environment, and remove older ones but the last, in which a node may still run."""
    before = os.path.basename(os.path.realpath(link)) if os.path.lexists(link) else ""
    partial = f"{link}.partial"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(partial)
    os.symlink(name, partial)
    os.replace(partial, link)
    for other in os.listdir(folder):
        if other.startswith("venv-") and other not in (before, name):
            shutil.rmtree(os.path.join(folder, other), ignore_errors=True)


if __name__ == "__main__":
    main()
