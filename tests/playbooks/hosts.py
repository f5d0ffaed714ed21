"""A host for tests: a tree of files below a folder, and commands that answer from a table."""

from collections.abc import Callable, Mapping
from pathlib import Path

from module_utils.raybench_configure.host import Answer, Host

Reply = Callable[[tuple[str, ...]], str]


class TreeHost(Host):
    """A machine whose files are given, and whose commands are functions of their arguments. ``ran`` is what was run."""

    def __init__(self, root: Path, files: Mapping[str, str] | None = None, **commands: Reply | str) -> None:
        super().__init__(str(root))
        self.commands = {name.replace("_", "-"): reply for name, reply in commands.items()} | commands
        self.ran: list[tuple[str, ...]] = []
        for name, text in {"/proc/self/ns/placeholder": "", **(files or {})}.items():
            self.put(name, text)

    def put(self, name: str, text: str) -> None:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def tree(self, *below: str) -> dict[str, tuple[str, int]]:
        """Content and mode of every file below some folders."""
        return {
            str(path.relative_to(self.root)): (path.read_text(), path.stat().st_mode)
            for folder in below
            for path in sorted(self.path(folder).rglob("*"))
            if path.is_file()
        }

    def find(self, command: str) -> str | None:
        return f"/usr/sbin/{command}" if command in self.commands else None

    def run(self, *command: str, seconds: float = 30.0) -> Answer:
        self.ran.append(command)
        reply = self.commands.get(command[0])
        if reply is None:
            return Answer(127, "", f"{command[0]} is not installed")
        try:
            return Answer(0, reply if isinstance(reply, str) else reply(command), "")
        except ValueError as error:
            return Answer(1, "", str(error))
