"""SSH without Ansible: connections by paramiko, as the user's ~/.ssh/config, agent and known_hosts say.

Host keys are checked always. A key that is not known is refused, or noted with ``accept_new``; one that has changed is
refused in any case. Nothing asks for a password: what OpenSSH could not do with BatchMode is an error that says so.
"""

import base64
import contextlib
import getpass
import hashlib
import itertools
import logging
import os
import re
import shlex
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raybench.errors import IncompleteRunError
from raybench.hosts.inventory import Host

if TYPE_CHECKING:
    import paramiko

CONNECT_SECONDS = 15.0
SILENCE_SECONDS = 30.0  # without a byte, after which a connection counts as cut
_KEEPALIVE_SECONDS = 10
_LOG_CHANNEL = "raybench.ssh"
_MUTE = ("No existing session", "SSH protocol banner")  # what paramiko says where no greeting came in time
_MOST_JUMPS = 4
_SHORT = {"-J": "ProxyJump", "-i": "IdentityFile", "-p": "Port", "-l": "User"}  # options of ssh as -o has them


logging.getLogger(_LOG_CHANNEL).addHandler(logging.NullHandler())


class SshError(IncompleteRunError):
    """A host that could not be used over SSH. ``cut``: it was reached, and trying again may help."""

    def __init__(self, message: str, *, cut: bool = False) -> None:
        super().__init__(message)
        self.cut = cut


@dataclass(frozen=True, slots=True, kw_only=True)
class SshTarget:
    """How one host is reached."""

    name: str
    address: str
    port: int = 22
    user: str | None = None
    identity_files: tuple[str, ...] = ()
    identities_only: bool = False
    known_hosts: tuple[str, ...] = ()
    accept_new: bool = False
    jumps: tuple["SshTarget", ...] = field(default=())
    proxy_command: str | None = None


def target_of(host: Host, *, config_file: Path | None = None, accept_new: bool = False) -> SshTarget:
    """How a host of the inventory is reached: its variables win over the ssh config, as with Ansible.

    ``config_file`` defaults to what ``-F`` in ansible_ssh_common_args says, then ``~/.ssh/config``. Raises SshError for
    a config that cannot be read.
    """
    variables = host.variables
    words = _option_words(variables)
    found = _settings(words)
    settings = _lookup(host.address or host.name, config_file or _named_config(words))
    settings |= found
    target = _target(host.name, host.address or host.name, settings, accept_new, config_file or _named_config(words))
    keys = variables.get("ansible_ssh_private_key_file") or variables.get("ansible_private_key_file")
    port = variables.get("ansible_port") or variables.get("ansible_ssh_port")
    user = variables.get("ansible_user") or variables.get("ansible_ssh_user")
    target = replace(
        target,
        user=str(user) if user else target.user,
        port=int(port) if port else target.port,
        identity_files=(str(Path(str(keys)).expanduser()),) if keys else target.identity_files,
    )
    command = found.get("proxycommand")
    if not command or target.proxy_command is None:
        return target
    return replace(target, proxy_command=_expanded(str(command), target))


def _option_words(variables: Mapping[str, Any]) -> list[str]:
    text = " ".join(str(variables.get(name) or "") for name in ("ansible_ssh_common_args", "ansible_ssh_extra_args"))
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _named_config(words: Sequence[str]) -> Path | None:
    """The file of ``-F FILE``."""
    pairs = itertools.pairwise(words)
    return next((Path(value).expanduser() for word, value in pairs if word == "-F"), None)


def _settings(words: Sequence[str]) -> dict[str, Any]:
    """What ``-o NAME=VALUE`` sets, with names as paramiko has them: in lower case."""
    pairs = list(itertools.pairwise(words))
    options = [f"{_SHORT[word]}={value}" for word, value in pairs if word in _SHORT]
    options += [value for word, value in pairs if word == "-o"]
    options += [word.removeprefix("-o") for word in words if word.startswith("-o") and len(word) > 2]
    settings: dict[str, Any] = {}
    for option in options:
        name, value = [*re.split(r"\s*=\s*|\s+", option.strip(), maxsplit=1), ""][:2]
        settings[name.lower()] = [value] if name.lower() == "identityfile" else value
    return settings


def _expanded(command: str, target: SshTarget) -> str:
    """A ProxyCommand with its tokens replaced, as ssh_config(5) has them; paramiko does so in its file only."""
    user = target.user or getpass.getuser()
    values = {"%": "%", "h": target.address, "n": target.name, "p": str(target.port), "r": user}
    return re.sub(r"%(.)", lambda found: values.get(found[1], found[0]), command)


def _lookup(name: str, config_file: Path | None) -> dict[str, Any]:
    import paramiko

    path = config_file or Path("~/.ssh/config").expanduser()
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        if config_file is None:
            return {}
        raise SshError(f"the ssh config {path} cannot be read: {error.strerror}") from error
    try:
        return dict(paramiko.SSHConfig.from_text(text).lookup(name))
    except paramiko.ConfigParseError as error:
        raise SshError(f"the ssh config {path} cannot be understood: {error}") from error


def _target(
    name: str, address: str, settings: Mapping[str, Any], accept_new: bool, config_file: Path | None
) -> SshTarget:
    known = str(settings.get("userknownhostsfile") or "~/.ssh/known_hosts").split()
    return SshTarget(
        name=name,
        address=str(settings.get("hostname") or address),
        port=int(settings.get("port") or 22),
        user=settings.get("user"),
        identity_files=tuple(str(Path(path).expanduser()) for path in settings.get("identityfile") or ()),
        identities_only=str(settings.get("identitiesonly", "no")).lower() == "yes",
        known_hosts=tuple(str(Path(path).expanduser()) for path in known if path != "none"),
        accept_new=accept_new or str(settings.get("stricthostkeychecking", "")).lower() in {"accept-new", "no", "off"},
        jumps=tuple(_jumps(settings, accept_new, config_file)),
        proxy_command=None if settings.get("proxyjump") else settings.get("proxycommand"),
    )


def _jumps(settings: Mapping[str, Any], accept_new: bool, config_file: Path | None) -> Iterator[SshTarget]:
    text = str(settings.get("proxyjump") or "none")
    for part in text.split(",")[:_MOST_JUMPS] if text != "none" else ():
        user, _, place = part.strip().removeprefix("ssh://").rpartition("@")
        name, colon, port = place.rpartition(":")
        name, port = (name, port) if colon and port.isdecimal() else (place, "")
        own = {key: value for key, value in _lookup(name, config_file).items() if key != "proxyjump"}
        target = _target(name, name, own, accept_new, config_file)
        yield replace(target, user=user or target.user, port=int(port) if port else target.port)


@contextlib.contextmanager
def connected(target: SshTarget) -> Iterator["paramiko.SSHClient"]:
    """A connection to a host, closed at the end with those to its jump hosts. Raises SshError."""
    with contextlib.ExitStack() as stack:
        channel: Any = None
        hops = (*target.jumps, target)
        for hop, following in zip(hops, (*hops[1:], None), strict=True):
            client = _client(hop)
            stack.callback(client.close)
            _connect(client, hop, channel)
            if following is not None:
                channel = _tunnel(client, hop, following)
        yield client


def _client(target: SshTarget) -> "paramiko.SSHClient":
    import paramiko

    client = paramiko.SSHClient()
    client.set_log_channel(_LOG_CHANNEL)  # a thread of its own logs stack traces of what is raised here as well
    for path in (*target.known_hosts, "/etc/ssh/ssh_known_hosts"):
        with contextlib.suppress(OSError, paramiko.SSHException):
            client.load_system_host_keys(path)
    client.set_missing_host_key_policy(_new_key_policy(target))
    return client


def _new_key_policy(target: SshTarget) -> "paramiko.MissingHostKeyPolicy":
    import paramiko

    class NewKey(paramiko.MissingHostKeyPolicy):
        def missing_host_key(self, _client: object, hostname: str, key: paramiko.PKey) -> None:
            fingerprint = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).rstrip(b"=").decode()
            if not target.accept_new:
                raise SshError(
                    f"the host key of {target.name} ({key.get_name()} SHA256:{fingerprint}) is not known. Compare it "
                    f"on the host's console, then 'ssh {shlex.quote(target.name)}' once, or give --accept-new"
                )
            _note_key(Path(target.known_hosts[0]), hostname, key)

    return NewKey()


def _note_key(path: Path, hostname: str, key: "paramiko.PKey") -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "a", encoding="ascii") as file:
        file.write(f"{hostname} {key.get_name()} {key.get_base64()}\n")


def _connect(client: "paramiko.SSHClient", target: SshTarget, channel: Any) -> None:
    import paramiko

    keys: Any = [path for path in target.identity_files if Path(path).is_file()]  # a list is fine with paramiko
    place = f"{target.name} ({target.address}:{target.port})"
    try:
        if channel is None and target.proxy_command and target.proxy_command != "none":
            channel = paramiko.ProxyCommand(target.proxy_command)
        client.connect(
            target.address,
            port=target.port,
            username=target.user,
            key_filename=keys,
            look_for_keys=not target.identities_only and not target.identity_files,
            allow_agent=not target.identities_only,
            timeout=CONNECT_SECONDS,
            banner_timeout=CONNECT_SECONDS,
            auth_timeout=CONNECT_SECONDS,
            channel_timeout=CONNECT_SECONDS,
            sock=channel,
        )
    except paramiko.BadHostKeyException as error:
        raise SshError(
            f"the host key of {place} is not the one in known_hosts: the host was reinstalled, or another machine "
            f"answers for it. Nothing was sent. If it was reinstalled: ssh-keygen -R {shlex.quote(error.hostname)}"
        ) from error
    except paramiko.PasswordRequiredException as error:
        raise SshError(f"the key for {place} has a passphrase; put it into an agent with ssh-add") from error
    except paramiko.AuthenticationException as error:
        user = target.user or "this user"
        raise SshError(
            f"{place} lets {user} in with none of the keys at hand; does 'ssh {target.name}' work?"
        ) from error
    except (paramiko.SSHException, OSError, EOFError) as error:
        raise SshError(f"{place} cannot be reached: {_reason(error)}", cut=True) from error
    transport = client.get_transport()
    if transport is not None:
        transport.set_keepalive(_KEEPALIVE_SECONDS)


def _tunnel(client: "paramiko.SSHClient", hop: SshTarget, following: SshTarget) -> Any:
    import paramiko

    try:
        there = (following.address, following.port)
        return _transport(client).open_channel("direct-tcpip", there, ("", 0), timeout=CONNECT_SECONDS)
    except (paramiko.SSHException, OSError, EOFError) as error:
        raise SshError(f"{following.name} cannot be reached through {hop.name}: {_reason(error)}", cut=True) from error


def _transport(client: "paramiko.SSHClient") -> "paramiko.Transport":
    transport = client.get_transport()
    if transport is None:
        raise EOFError("the connection has ended")
    return transport


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError | socket.timeout):
        return f"no answer within {CONNECT_SECONDS:.0f} s"
    errors = getattr(error, "errors", None)
    if isinstance(errors, Mapping) and errors:  # paramiko's NoValidConnectionsError: one reason an address
        return "; ".join(dict.fromkeys(str(getattr(one, "strerror", None) or one) for one in errors.values()))
    if any(words in str(error) for words in _MUTE):
        return f"it takes connections, and its sshd says nothing within {CONNECT_SECONDS:.0f} s"
    return str(error) or type(error).__name__


def answer_of(client: "paramiko.SSHClient", command: str, *, seconds: float, limit_bytes: int) -> tuple[int, bytes]:
    """Exit status and output of a command in time and size; 124 where it took too long. Raises SshError on a cut.

    ``command`` is read by a shell on the host: constants of ours only, and nothing that was read from anywhere.
    """
    import paramiko

    try:
        with _transport(client).open_session(timeout=CONNECT_SECONDS) as channel:
            channel.settimeout(seconds)
            channel.set_combine_stderr(True)
            channel.exec_command(command)
            output = bytearray()
            while len(output) < limit_bytes and (chunk := channel.recv(limit_bytes - len(output))):
                output += chunk
            ended = channel.status_event.wait(1.0)
            return (channel.recv_exit_status() if ended else 0), bytes(output)
    except TimeoutError:
        return 124, b""
    except (paramiko.SSHException, OSError, EOFError) as error:
        raise SshError(f"the connection was cut: {_reason(error)}", cut=True) from error
