"""Environment variables and options whose name or value looks secret: their values are used, and never written down."""

import re
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

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
_COUNT_OF_TOKENS = re.compile(r"\d{1,8}")  # of a language model: MAX_TOKENS=4096

_KEYS = (  # NAME=VALUE, --NAME VALUE and "NAME": "VALUE" inside a value
    r"passw(?:or)?d|passphrase|pwd|secret|client[_-]?secret|api[_-]?key|access[_-]?key(?:[_-]?id)?|account[_-]?key|"
    r"shared[_-]?access[_-]?key|secret[_-]?access[_-]?key|private[_-]?key|sig|signature|x-amz-signature|"
    r"x-amz-credential|x-amz-security-token|x-goog-signature|x-goog-credential|"
    r"(?:access|auth|refresh|security|session|api|bearer|id)?[_-]?token"
)
_PARTS = re.compile(
    r"(?P<before>https?://)[^/@\s]+(?=@)"  # https://TOKEN@host
    r"|(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)[^/@\s]*:[^/@\s]+(?=@)"  # redis://:password@host
    rf"|(?P<key>(?:^|[?&;,\s{{\"']|--)(?:{_KEYS})(?:=|[\"']?\s*:\s*)[\"']?)[^&;,\s\"'}}]+"
    rf"|(?P<option>(?:^|\s)--?(?:{_KEYS})\s+)(?!-)\S+"
    r"|(?P<header>\bauthorization\s*[:=]\s*)\S.*"
    r"|(?P<kind>\b(?:bearer|basic)\s+)(?=\S*[\d=.])[A-Za-z0-9._~+/=-]{16,}",
    re.IGNORECASE,
)
_TOKENS = re.compile(
    r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{20,}|xox[a-z]-[\w-]{8,}"
    r"|sk-(?=[\w-]*\d)[\w-]{20,}|(?:AKIA|ASIA)[A-Z0-9]{16}\b|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|hooks\.slack\.com/services/\S+)|-----BEGIN [A-Z ]*PRIVATE KEY"
)


def is_secret(name: str, value: str = "") -> bool:
    """Whether the name of a variable looks as if its value were secret, or the value holds a password or a token."""
    upper = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()
    if _PARTS.search(value) or _TOKENS.search(value) or _ANYWHERE.search(upper):
        return True
    if "TOKENS" in upper and _COUNT_OF_TOKENS.fullmatch(value):
        return False
    if _ENDS.search(upper):
        return True
    if upper in _PLAIN or upper.startswith(_LIBRARIES):
        return False
    return bool(_WORDS.intersection(re.split("[^A-Z]+", upper)))


def without_secrets(value: Any) -> Any:
    """What an option holds, as it may be written down: of each text in it the passwords and tokens are left out."""
    if isinstance(value, str):
        return _TOKENS.sub(RECORDED, _PARTS.sub(_omitted, value))
    if isinstance(value, Mapping):
        return {name: without_secrets(one) for name, one in value.items()}
    return type(value)(map(without_secrets, value)) if isinstance(value, list | tuple) else value


def _omitted(found: re.Match[str]) -> str:
    return next((part for part in found.groups() if part), "") + RECORDED


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
