"""Where Ansible's programs, our playbooks and the settings that both run with are found."""

import configparser
import contextlib
import locale
import os
import shutil
import stat
import sys
from pathlib import Path

from raybench.errors import UsageError
from raybench.installation import install_advice

_KEY_CHECKING = ("ANSIBLE_HOST_KEY_CHECKING", "ANSIBLE_SSH_HOST_KEY_CHECKING")
_PACKAGE = Path(__file__).resolve().parents[1]
INSTALL = install_advice("ansible")


def data_folder(name: str) -> Path:
    """``playbooks`` or ``inventory``: as the wheel carries it (``raybench/_data``), else of the checkout.

    Raises UsageError when neither is there.
    """
    for folder in (_PACKAGE / "_data" / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise UsageError(f"the folder {name} is neither in raybench's package nor beside it; install raybench again")


def playbook_path(name: str) -> Path:
    """The file of one of our playbooks: ``preflight`` is ``preflight.yml``. Raises UsageError when there is none."""
    path = data_folder("playbooks") / f"{name}.yml"
    if not path.is_file():
        raise UsageError(f"there is no playbook {name} in {path.parent}")
    return path


def ansible_program(name: str) -> str:
    """The full path of ``ansible-playbook`` and the like: of this Python's environment, else of the search path.

    Raises UsageError when Ansible is not installed.
    """
    own = Path(sys.executable).parent / name
    program = str(own) if own.is_file() else shutil.which(name)
    if program is None:
        raise UsageError(f"{name} is not installed: {INSTALL}")
    return program


def ansible_settings() -> dict[str, str]:
    """Environment variables for Ansible beside the user's own.

    The user's ansible.cfg is kept where Ansible would find one, ours is taken otherwise. An inventory that cannot be
    read and a group or limit that does not exist are errors; left alone, Ansible warns and reports success. Host keys
    are checked unless the user has said otherwise; left alone, ansible-runner does not. How much Ansible prints, and by
    which plugin, is ours to say: we read it.
    """
    settings = _settings_file()
    return {
        "ANSIBLE_CONFIG": str(settings),
        "ANSIBLE_HOST_KEY_CHECKING": next(filter(None, map(os.environ.get, _KEY_CHECKING)), None)
        or _host_key_checking(settings),
        "ANSIBLE_HOST_PATTERN_MISMATCH": "error",
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true",
        "ANSIBLE_NOCOLOR": "true",
        "ANSIBLE_RETRY_FILES_ENABLED": "false",
        "ANSIBLE_STDOUT_CALLBACK": "default",
        "ANSIBLE_VERBOSITY": "0",
        **_locale_settings(),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
    }


def _locale_settings() -> dict[str, str]:
    """A UTF-8 locale that is there, where the user has another, as after ssh from elsewhere: Ansible needs one."""
    before = locale.setlocale(locale.LC_CTYPE)
    try:
        for name in ("", "C.UTF-8", "en_US.UTF-8"):
            with contextlib.suppress(locale.Error):
                locale.setlocale(locale.LC_CTYPE, name)
                if locale.nl_langinfo(locale.CODESET).upper().replace("-", "") == "UTF8":
                    return {"LC_ALL": name} if name else {}
    finally:
        locale.setlocale(locale.LC_CTYPE, before)
    return {}


def _host_key_checking(settings: Path) -> str:
    """What an ansible.cfg says of it, which the variable that we have to set would overrule; "True" where nothing."""
    parser = configparser.ConfigParser(interpolation=None, strict=False, inline_comment_prefixes=(";",))
    try:
        parser.read(settings, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return "True"  # Ansible itself says what is wrong with the file
    everywhere = parser.get("defaults", "host_key_checking", fallback="True")
    return parser.get("ssh_connection", "host_key_checking", fallback=everywhere)


def _settings_file() -> Path:
    """The file that Ansible would read if it were called here, or our own."""
    named = os.environ.get("ANSIBLE_CONFIG")
    here = Path("ansible.cfg")
    candidates = [Path(named)] if named else []
    if here.is_file() and not Path.cwd().stat().st_mode & stat.S_IWOTH:  # Ansible, too, skips it in such a folder
        candidates.append(here)
    candidates += [Path("~/.ansible.cfg").expanduser(), Path("/etc/ansible/ansible.cfg")]
    found = (path.resolve() for path in candidates if path.is_file())
    return next(found, data_folder("playbooks") / "ansible.cfg")
