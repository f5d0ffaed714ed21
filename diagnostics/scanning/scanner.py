"""Candidate lines to events: each is counted, or read by its halves, or in full with ``prefix`` and ``parsers``."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from diagnostics.events import Event, Origin, quote
from diagnostics.inputs.blocks import as_written, count_binary
from diagnostics.inputs.reader import Batch
from diagnostics.parsers import BODY_PATTERNS, FOREIGN_PATTERNS, OBSERVER_PATTERNS, PATTERNS, SIGNS, info_patterns
from diagnostics.parsers.base import Pattern, compiled, front_and_end, read_message
from diagnostics.scanning.first_words import with_first_words
from diagnostics.scanning.gate import Gate, is_foreign, is_torn
from diagnostics.scanning.glued import glued_parts
from diagnostics.scanning.plain_lines import MARK, Found, PlainLines
from diagnostics.scanning.prefix import (
    Message,
    bare_message,
    clean,
    launcher_rank,
    split_messages,
    with_lines_apart,
    with_name,
)
from diagnostics.scanning.quoted import Quoted, quoted_in, read_quoted
from diagnostics.scanning.repetition import behind_brackets
from diagnostics.scanning.starts import START, Start
from diagnostics.scanning.steps import Steps
from diagnostics.scanning.tally import MAX_TEXTS, Tally
from diagnostics.scanning.wrapped import MAX_PATTERN_CHARACTERS, Wrapped, may_go_on

if TYPE_CHECKING:
    from diagnostics.scanning.sifting import Sifted

MAX_QUIET_BYTES = 2**22  # of all texts that one scanner remembers; behind them a line is read each time
QUIET_OVERHEAD_BYTES = 100  # of each in a set
MAX_HOSTS = 20_000
_BARE = (
    "NET/",
    "Using network",
    "Channel ",
    "GPU Direct",
    "Bootstrap",
    "Topology detection",
)  # how pasted lines begin without NCCL's mark
_OF_PLUGIN = r"^\W*(?P<level>INFO|WARN|TRACE): Function: \w+ Line: \d+: (?=NET/)"  # aws-ofi-nccl without NCCL
_SHELL_VARIABLE = (
    r"(?:^|\s|-x ?|export |--env[= ])(?P<name>(?:NCCL|RCCL|FI|TORCH_NCCL)_[A-Z0-9_]+)=(?P<value>[^\s'\";]*)"
)


@dataclass(slots=True)
class Scanner:
    """Feeds events to ``sink`` in reading order; ``tally`` has what was only counted. Not for several threads."""

    sink: Callable[[Event], None]
    gate: Gate = field(default_factory=Gate)
    starts: Callable[[Start], None] | None = None  # takes starts and completions in their usual form, else ``sink``
    unreadable: int = 0
    quiet: set[bytes] = field(default_factory=set)  # what lines without NCCL's mark say that nothing reads
    deduplicated: bool = False  # Ray left out lines that repeat
    progress_omitted: int = -1  # the place of the last event behind which lines may only have been counted
    tally: Tally = field(init=False)
    steps: Steps = field(default_factory=Steps)  # whether files end with steps of a training
    _quiet_bytes_left: int = MAX_QUIET_BYTES
    _sequence: int = 0
    _next_line: dict[str, int] = field(default_factory=dict)
    _file: str = ""
    _plain: PlainLines = field(default_factory=PlainLines)
    _wrapped: Wrapped = field(default_factory=Wrapped)
    _hosts: dict[str, None] = field(default_factory=dict)
    _kinds: list[str] = field(default_factory=list)
    _quotes_error: bool = False  # PyTorch repeats NCCL's last warning on the line after "Last error:"
    _opening: str = ""  # of a watchdog's message that was wrapped before what it waits for

    def __post_init__(self) -> None:
        self.tally = Tally(self.gate)
        self.gate.quiet = self.quiet

    @property
    def last_lines(self) -> dict[str, int]:
        """The number of the last line that was read, of each file."""
        return {file: line - 1 for file, line in self._next_line.items()}

    def feed(self, batch: Batch) -> None:
        """Read the lines of one batch."""
        before = self.gate.lines
        goes_on = batch.file == self._file and 1 < batch.line == self.next_line(batch.file)
        if batch.skipped or (batch.first and not goes_on):
            self.gate.wrapped = 0
        self._file = batch.file
        block = as_written(batch.block)
        self.unreadable += count_binary(block)
        self.steps.take(batch.file, block)
        first = (batch.line if batch.first else self.next_line(batch.file)) + (batch.skipped or 0)
        for number, raw in self.gate.candidates(block):
            self._read(raw, first + number)
        self._next_line[batch.file] = first + self.gate.lines - before
        self._note_left_out()

    def next_line(self, file: str) -> int:
        """The number of the line behind the last one of a file that was read."""
        return self._next_line.get(file, 1)

    def take(self, file: str, sifted: "Sifted", first: int) -> None:
        """Read what was kept of lines that begin with number ``first``."""
        self._file = file
        self.steps.forget(file)
        self.tally.room = 2 * MAX_TEXTS  # beside those read here, all that the processes together may learn
        for number, raw in sifted.candidates:
            self._read(raw, first + number)
        self.tally.room = MAX_TEXTS
        self.tally.add(sifted.known, sifted.channels)
        self.gate.lines += sifted.lines
        self.gate.nccl_lines += sifted.nccl_lines
        self.gate.detail_left -= sifted.nccl_lines
        self.unreadable += sifted.unreadable
        self._next_line[file] = first + sifted.lines
        self._note_left_out()

    def _note_left_out(self) -> None:
        if not self.gate.detailed:
            self.progress_omitted = self._sequence

    def _read(self, raw: bytes, line: int) -> None:
        if raw.find(b"CCL") < 0:
            named = self._read_unnamed(raw, line)
            if named is None:
                return
            raw = named
        if not self.gate.held:
            if not self.tally.counts(raw):
                self._read_marked(raw, line)
        elif self.tally.repeats(raw):
            self._flush()
        else:
            self._read_marked(raw, line)

    def _read_unnamed(self, raw: bytes, line: int) -> bytes | None:
        """Read a line without NCCL's name; where its mark is one of old releases, it with the name instead."""
        waits = self.gate.held or self._quotes_error
        if not waits and (text := behind_brackets(raw)) in self.quiet:
            return None
        if (named := with_name(raw)).find(b"CCL") >= 0:
            return named
        if waits:
            self._read_foreign(raw, line)
        else:
            self._read_fresh(raw, text, line)
        return None

    def _read_fresh(self, raw: bytes, text: bytes, line: int) -> None:
        """Read a line without NCCL's mark, and remember its text where nothing reads it."""
        before = self._sequence
        if is_foreign(raw):
            self._read_foreign(raw, line)
        told = self._sequence > before or self._quotes_error
        if not told and len(text) <= self._quiet_bytes_left:
            self._quiet_bytes_left -= len(text) + QUIET_OVERHEAD_BYTES
            self.quiet.add(text)

    def tells(self, raw: bytes) -> bool:
        """Read a line without NCCL's name by itself; whether it tells something, wherever it stands."""
        self._read(raw, 0)
        self._flush()
        self._quotes_error = False
        return behind_brackets(raw) not in self.quiet

    def finish(self) -> None:
        """Hand over what was kept back for a following line."""
        self._flush()

    def _read_marked(self, raw: bytes, line: int) -> None:
        if self.starts is not None and raw.find(b" - Init ") >= 0 and self._read_start(raw, line, self.starts):
            return
        if (plain := self._plain.read(raw)) is not None:
            self._read_plain(raw, line, *plain)
        else:
            self._read_in_full(raw, line)

    def _read_start(self, raw: bytes, line: int, sink: Callable[[Start], None]) -> bool:
        """Read a start or completion of a communicator; whether it has the usual form."""
        mark = raw.find(MARK)
        if mark <= 0 or (found := START.fullmatch(raw[mark:].decode("utf-8", "replace"))) is None:
            return False
        if (speaker := self._plain.speaker(raw[:mark])) is None:
            return False
        if self.gate.held:
            self._flush()
        self._sequence += 1
        comm, rank, nranks, *gpu, what = found.groups()
        origin = self._origin(self._with_known_host(speaker), line)
        sink(Start(origin, raw, what == "COMPLETE", comm, int(rank), int(nranks), *gpu))
        return True

    def _origin(self, message: Message, line: int) -> Origin:
        return Origin(
            self._file,
            line,
            self._sequence,
            message.host,
            message.pid,
            message.thread,
            message.device,
            message.rank,
            message.level,
        )

    def _read_plain(self, raw: bytes, line: int, speaker: Message, text: str, found: Found, known: bool) -> None:
        """Read a line of one message at level INFO whose halves are known."""
        if self.gate.held:
            self._flush()
        self._kinds.clear()
        speaker = self._with_known_host(speaker)
        for kind, fields in found:
            self._send(kind, fields, speaker, raw.decode().rstrip("\r"), line, text)
        if not known:
            self.tally.remember(raw, self._kinds)

    def _read_in_full(self, raw: bytes, line: int) -> None:
        text = clean(raw)
        self.deduplicated |= "x across cluster]" in text
        messages = list(split_messages(text))
        if not messages and (named := with_name(raw)) != raw:  # its text names NCCL, its mark does not
            messages = list(split_messages(clean(named)))
        self._continue_or_flush(text if not messages else "")
        self._kinds.clear()
        if not messages:
            self._read_unmarked(text, line)
        for message in map(self._with_known_host, messages):
            self.unreadable += message.torn
            if message.level == "WARN":
                message = message._replace(text=with_first_words(message.text, marked=True))  # noqa: PLW2901
            if message.level in ("WARN", "ATTN") and not message.torn and may_go_on(text, message):
                self._keep_back(text, message, line)
                self._kinds += [kind for kind, _ in read_message(PATTERNS, message.text)] or ["unclassified-warning"]
            else:
                self._emit(message, PATTERNS, text if len(messages) == 1 else message.text, line)
        for part in glued_parts(text) if messages else ():
            self._read_glued(part, line)
        if messages and "=" in text:
            self._read_shell(text[: text.find("NCCL ")], line)
        self.tally.remember(raw, self._kinds)

    def _with_known_host(self, message: Message) -> Message:
        """The message with its host freed of what another process wrote just before it."""
        host = message.host
        if host is None or host in self._hosts:
            return message
        if message.glued:
            known = next((name for name in self._hosts if host.endswith(name)), host)
            return message if known == host else message._replace(host=known)
        if len(self._hosts) < MAX_HOSTS:
            self._hosts[host] = None
        return message

    def _read_unmarked(self, text: str, line: int) -> None:
        """A line that names NCCL without its mark: the raw version banner, PyTorch, a command with variables."""
        text = self._unwrapped(text)
        message = Message(text=front_and_end(bare_message(text), MAX_PATTERN_CHARACTERS), rank=launcher_rank(text))
        if "CCL version" in text:
            self._emit(message, [pattern for pattern in PATTERNS if pattern.kind == "version"], text, line)
        self._emit(message, OBSERVER_PATTERNS, text, line)
        for one in with_lines_apart(message):
            self._emit(one, FOREIGN_PATTERNS, text, line)
        if not self._read_quoted_error(text, message, line):
            message = message._replace(text=with_first_words(message.text))
            self._emit(message, PATTERNS if message.text.startswith(_BARE) else BODY_PATTERNS, text, line)
        self._read_shell(text, line)

    def _read_shell(self, text: str, line: int) -> None:
        for match in compiled(_SHELL_VARIABLE).finditer(text[:MAX_PATTERN_CHARACTERS]):
            self._send("shell-variable", match.groupdict(), Message(text=text), text, line)

    def _read_glued(self, part: str, line: int) -> None:
        """What another program wrote into a line of NCCL's."""
        message = Message(text=bare_message(part)[:MAX_PATTERN_CHARACTERS], rank=launcher_rank(part))
        self._emit(message, FOREIGN_PATTERNS, part, line)
        self._emit(message._replace(text=with_first_words(message.text)), BODY_PATTERNS, part, line)

    def _read_foreign(self, raw: bytes, line: int) -> None:
        text = clean(raw)
        self._continue_or_flush(text)
        message = Message(text=front_and_end(bare_message(text), MAX_PATTERN_CHARACTERS), rank=launcher_rank(text))
        before = self._sequence
        self._emit(message, OBSERVER_PATTERNS, text, line)
        self.gate.nccl_lines += self._sequence > before
        for one in with_lines_apart(message):
            self._emit(one, FOREIGN_PATTERNS, text, line)
        if not self._read_quoted_error(text, message, line):
            message = _of_plugin(message)
            message = message._replace(text=with_first_words(message.text, alone=not self.gate.held))
            whole = message.text.startswith(_BARE) or "UCX" in text
            before = self._sequence
            if is_torn(raw) and "Call to ibv_" in message.text:
                self._keep_back(text, message, line)
            else:
                self._emit(message, PATTERNS if whole else BODY_PATTERNS, text, line)
            self.gate.nccl_lines += self._sequence > before  # pasted without NCCL's mark, and NCCL's all the same

    def _read_quoted_error(self, text: str, message: Message, line: int) -> bool:
        """NCCL's last warning, which programs repeat; whether all that the line says is that."""
        quoted = quoted_in(text)
        if self._quotes_error and (quoted is None or not quoted.surely):
            quoted = Quoted(message.text, surely=True)
        self._quotes_error = quoted is not None and not quoted.text
        if quoted is None or not quoted.text:
            return False
        found = read_quoted(quoted)
        for kind, fields in found:
            self._send(kind, fields, message._replace(level="WARN"), text, line)
        return quoted.surely or bool(found)

    def _unwrapped(self, text: str) -> str:
        """The line, joined with the one before where that is a watchdog's message that breaks off."""
        opening, self._opening = self._opening, ""
        if opening and "WorkNCCL(" in text[:80]:
            return f"{opening} {text.strip()}"
        if text.rstrip().endswith("collective operation timeout:"):
            self._opening = text.rstrip()
        return text

    def _keep_back(self, text: str, message: Message, line: int) -> None:
        """Keep a warning back: the next lines may be the rest of it."""
        self._sequence += 1
        self._wrapped.keep(text, message, line, self._sequence)
        self.gate.held = True

    def _continue_or_flush(self, text: str) -> None:
        """Keep a line that may be the rest of the warning kept back; else the warning is whole."""
        if not self._wrapped.takes(text):
            self._flush()

    def _flush(self) -> None:
        """Emit the warning kept back, if there is one."""
        if (kept := self._wrapped.release()) is not None:
            self.gate.held = False
            read, self._sequence = self._sequence, kept.place - 1  # it stands before what was read since then
            self._emit(kept.message, PATTERNS if kept.message.level else BODY_PATTERNS, kept.text, kept.line)
            self._sequence = max(read, self._sequence)

    def _emit(self, message: Message, patterns: Iterable[Pattern], quoted: str, line: int) -> None:
        if message.level == "INFO":
            patterns = info_patterns(message.text)
        found = read_message(patterns, front_and_end(message.text, MAX_PATTERN_CHARACTERS))
        if message.level == "WARN" and message.text and SIGNS.issuperset(kind for kind, _ in found):
            found.append(("unclassified-warning", {"text": message.text}))
        for kind, fields in found:
            self._send(kind, fields, message, quoted, line)

    def _send(
        self, kind: str, fields: dict[str, str], message: Message, quoted: str, line: int, said: str = ""
    ) -> None:
        self._sequence += 1
        self._kinds.append(kind)
        event = Event(kind, self._origin(message, line), quote(quoted), fields)
        if kind == "channel":
            self.tally.count_channel(event, said or message.text)
        self.sink(event)


def _of_plugin(message: Message) -> Message:
    """The message and level of a plugin's own logger: ``WARN: Function: ofi_init Line: 6: NET/OFI ...``."""
    match = compiled(_OF_PLUGIN).match(message.text)
    return message if match is None else message._replace(text=message.text[match.end() :], level=match["level"])
