"""One of our modules, called on this machine as Ansible calls it there: a process of its own, its arguments as JSON.

Ansible itself, which takes two seconds to pack and start one, calls them in the tests of playbooks and in labs.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"
_CALL = """
import json, runpy, sys
import ansible.module_utils
from ansible.module_utils.testing import patch_module_args
module, ours = sys.argv[1:]
ansible.module_utils.__path__.append(ours)  # where Ansible finds them, by ansible.cfg
with patch_module_args(json.load(sys.stdin)):
    runpy.run_path(module, run_name="__main__")
"""


def call_module(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The answer of a module, a failure's too. Skips the test where Ansible is not installed."""
    pytest.importorskip("ansible", reason="Ansible is not installed: pip install '.[ansible]'")
    module, ours = PLAYBOOKS / "library" / f"{name}.py", PLAYBOOKS / "module_utils"
    done = subprocess.run(
        [sys.executable, "-c", _CALL, module, ours],
        input=json.dumps(arguments),
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode == 0) != answer.get("failed", False), done.stderr
    return answer
