"""Environment variables whose names look secret: their values are used, and never written down."""

import re
from collections.abc import Mapping, MutableMapping, Sequence

RECORDED = "set"

_ANYWHERE = re.compile("SECRET|PASSWORD|PASSWD|PASSPHRASE|PASSCODE|CREDENTIAL|WEBHOOK")
_ENDS = re.compile("(TOKEN|TOKENS|APIKEY|ACCESSKEY|PRIVATEKEY)$")  # also where nothing is between: GHTOKEN
_WORDS = frozenset(
    (
        "TOKEN",
        "TOKENS",
        "KEY",
        "KEYS",
        "AUTH",
        "PWD",
        "PASS",
        "COOKIE",
        "JWT",
        "SAS",
        "DSN",
        "CREDS",
        "PAT",
        "BEARER",
        "SSHPASS",
    )
)
_PLAIN = frozenset(("PWD", "OLDPWD"))
# In the settings of communication libraries KEY and AUTH are no secrets: NCCL_IB_PKEY is a partition.
_LIBRARIES = ("NCCL_", "TORCH_", "GLOO_", "UCX_", "FI_", "OFI_", "RCCL_", "MLX5_", "IBV_", "RDMAV_", "SHARP_", "OMP_")
_WITH_PASSWORD = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/@\s]*:[^/@\s]+@")  # https://user:password@host


def is_secret(name: str, value: str = "") -> bool:
    """Whether the name of a variable looks as if its value were secret, or the value holds a URL with a password."""
    upper = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()
    if _ANYWHERE.search(upper) or _ENDS.search(upper) or _WITH_PASSWORD.search(value):
        return True
    if upper in _PLAIN or upper.startswith(_LIBRARIES):
        return False
    return bool(_WORDS.intersection(re.split("[^A-Z]+", upper)))


def recorded(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables as they may be written down: a secret one is only said to be set."""
    return {name: RECORDED if is_secret(name, value) else value for name, value in variables.items()}


def recorded_pair(text: str) -> str:
    """The same for ``NAME=VALUE``; a name alone stays."""
    name, equals, value = text.partition("=")
    return f"{name}={RECORDED}" if equals and is_secret(name, value) else text


def moved_to_environment(words: Sequence[str], environment: MutableMapping[str, str]) -> tuple[str, ...]:
    """A command's words with ``--env NAME=VALUE`` of a secret as ``--env NAME``, and its value in the environment.

    Every process of the machine can read another one's words, and a study keeps them in its plan.
    """
    moved = []
    for before, word in zip(("", *words), words, strict=False):
        option, text = ("", word) if before == "--env" else ("--env=", word.removeprefix("--env="))
        name, equals, value = text.partition("=")
        is_pair = before == "--env" or word.startswith("--env=")
        if is_pair and equals and is_secret(name, value):
            environment[name] = value
            moved.append(option + name)
        else:
            moved.append(word)
    return tuple(moved)
