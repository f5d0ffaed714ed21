"""One of our modules, called by Ansible on this machine."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"


def call_module(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The answer of a module, a failure's too. Skips the test where Ansible is not installed."""
    pytest.importorskip("ansible", reason="Ansible is not installed: pip install '.[ansible]'")
    words = ["ansible", "localhost", "-c", "local", "-m", name, "-a", json.dumps(arguments)]
    words += [
        "-e",
        f"ansible_python_interpreter={sys.executable}",
        "-i",
        "localhost,",
        "-M",
        str(PLAYBOOKS / "library"),
    ]
    done = subprocess.run(
        [str(Path(sys.executable).with_name(words[0])), *words[1:]],
        env=os.environ
        | {
            "ANSIBLE_MODULE_UTILS": str(PLAYBOOKS / "module_utils"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",  # whatever the ansible.cfg of this folder says
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    answer: dict[str, Any] = json.loads(re.split(r"^localhost \| \S+ => ", done.stdout, flags=re.MULTILINE)[1])
    return answer
