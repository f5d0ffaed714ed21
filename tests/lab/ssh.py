"""SSH into the nodes: keys made for one lab, an sshd in every node, host keys known in advance."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from .boot import NodeFile

_CONFIG = "/etc/ssh/lab_sshd_config"
_HOST_KEY = "/etc/ssh/lab_host_key"
_SETTINGS = {
    "Port": "22",
    "HostKey": _HOST_KEY,
    "PidFile": "/run/lab-sshd.pid",
    "PermitRootLogin": "prohibit-password",
    "PasswordAuthentication": "no",
    "KbdInteractiveAuthentication": "no",
    "UsePAM": "no",
    "UseDNS": "no",
    "MaxStartups": "100:30:200",
    "Subsystem": "sftp internal-sftp",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SshAccess:
    """How the control node reaches the others: ``ssh -F config_file NODE``. Host keys are checked.

    ``host_key`` is one key for all nodes of a lab, so that a lab of a hundred is not busy making keys.
    """

    sshd: str
    identity_file: Path
    known_hosts: Path
    config_file: Path
    host_key: str
    public_key: str

    @property
    def daemon(self) -> tuple[str, ...]:
        """The command that starts a node's SSH server. It goes into the background by itself."""
        return (self.sshd, "-f", _CONFIG, "-E", "/var/log/lab-sshd.log")

    def node_files(self) -> dict[str, NodeFile]:
        """What a node needs to let root of the lab in."""
        settings = "".join(f"{name} {value}\n" for name, value in _SETTINGS.items())
        return {
            _CONFIG: NodeFile(text=settings),
            _HOST_KEY: NodeFile(text=self.host_key, mode=0o600),
            "/root/.ssh/authorized_keys": NodeFile(text=self.public_key, mode=0o600),
            "/run/sshd/.keep": NodeFile(text=""),
        }


def make_access(sshd: str, folder: Path, addresses: dict[str, str]) -> SshAccess:
    """Make the keys of a lab in a folder. ``addresses`` gives each node's address by host name."""
    folder.mkdir(mode=0o700)
    for name in ("client", "host"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"lab {name}", "-f", str(folder / name)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    known = (folder / "host.pub").read_text()
    access = SshAccess(
        sshd=sshd,
        identity_file=folder / "client",
        known_hosts=folder / "known_hosts",
        config_file=folder / "config",
        host_key=(folder / "host").read_text(),
        public_key=(folder / "client.pub").read_text(),
    )
    access.known_hosts.write_text("".join(f"{name},{address} {known}" for name, address in addresses.items()))
    access.config_file.write_text(_client_settings(access, addresses))
    return access


def _client_settings(access: SshAccess, addresses: dict[str, str]) -> str:
    hosts = "".join(f"Host {name} {address}\n  HostName {address}\n" for name, address in addresses.items())
    return (
        f"{hosts}Host *\n  User root\n  IdentityFile {access.identity_file}\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {access.known_hosts}\n  StrictHostKeyChecking yes\n  BatchMode yes\n  LogLevel ERROR\n"
    )
