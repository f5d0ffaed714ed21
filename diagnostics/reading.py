"""Logs being read: files, parts of jobs and pieces of these, lines to facts, and what they say at any time."""

from dataclasses import replace

from diagnostics.builder import FactBuilder
from diagnostics.errors import UnreadableInputError
from diagnostics.facts import FlightRecord, JobFacts
from diagnostics.findings import Diagnosis, LineCounts
from diagnostics.inputs.files import Input
from diagnostics.inputs.flight_recorder import DamagedDumpError, Recorder, is_dump
from diagnostics.inputs.jobs import Job
from diagnostics.inputs.part import Part, read_part
from diagnostics.inputs.reader import A_TRACE, TRACE_HEAD_BYTES, Batch, is_trace
from diagnostics.judging.judgement import diagnose_facts
from diagnostics.scanning.gate import Gate
from diagnostics.scanning.scanner import Scanner
from diagnostics.scanning.sifting import Piece, Sifted, is_sparse_part


class Reading:
    """Logs being read: feed batches, take a diagnosis at any time. ``--follow`` keeps one of these."""

    def __init__(self, gate: Gate | None = None) -> None:
        self._builder = FactBuilder()
        self._scanner = Scanner(self._builder.add, gate=gate or Gate(), starts=self._builder.add_start)
        self._files: dict[str, None] = {}
        self._notes: list[str] = []
        self._dumps: list[FlightRecord] = []
        self._recorder = Recorder()
        self._unended: set[str] = set()
        self.refused: UnreadableInputError | None = None  # the last file that could not be opened
        self._damaged: list[str] = []

    @property
    def gate(self) -> Gate:
        """What finds the lines to read."""
        return self._scanner.gate

    def feed(self, batch: Batch) -> None:
        """Read one batch of lines."""
        self._files.setdefault(batch.file)
        if batch.note:
            self._notes.append(batch.note)
        if batch.unended:
            self._unended.add(batch.file)
        self._scanner.feed(batch)

    def read_file(self, file: str | Input) -> None:
        """Read a whole file. Raises UnreadableInputError when it cannot be opened."""
        self._read_part(Part(file=file if isinstance(file, Input) else Input(name=file)))
        self.flush()

    def _read_part(self, part: Part) -> None:
        """Read a file, or the part of it that is this job's. Raises UnreadableInputError when it cannot be opened."""
        if is_dump(part.file.name):
            self._read_dump(part.file)
            return
        self._files.setdefault(part.file.name)
        head = b""
        for batch in read_part(part):
            if batch.place < TRACE_HEAD_BYTES and is_trace(head := head + batch.block):
                self._notes.append(f"{part.file.name}: left out, {A_TRACE}")
                return
            self.feed(batch)

    def read_piece(self, piece: Piece, sifted: Sifted | None) -> bool:
        """Read a piece, or take what another process kept of it; whether it was left out, with a note."""
        file, gate = piece.part.file.name, self._scanner.gate
        first = piece.part.first_line if piece.begins else self._scanner.next_line(file)
        if piece.begins:
            self.flush()
        if piece.alone:
            gate.by_piece = False
        else:
            gate.begin_piece(sparse=sifted.sparse if sifted is not None else is_sparse_part(piece.part))
            gate.detailed |= piece.ends
        if sifted is None or (gate.detailed and not sifted.sparse):
            return self._leaves_out(replace(piece.part, first_line=first))
        self._files.setdefault(file)
        self._scanner.take(file, sifted, first)
        return False

    def read_job(self, job: Job) -> int:
        """Read all parts of a job; how many were left out, with a note, because they cannot be opened."""
        omitted = 0
        for part in job.parts:
            omitted += self._leaves_out(part)
            self.flush()
        return omitted

    def _leaves_out(self, part: Part) -> bool:
        """Read a part; whether it was left out, with a note, because it cannot be opened."""
        try:
            self._read_part(part)
        except UnreadableInputError as error:
            self.refused = error
            reason = error.__cause__.strerror if isinstance(error.__cause__, OSError) else None
            self._notes.append(f"{part.file.name}: left out, it cannot be read: {reason or error}")
            return True
        return False

    def flush(self) -> None:
        """Take a line that was kept back in case the next one continues it."""
        self._scanner.finish()

    def _read_dump(self, file: Input) -> None:
        try:
            self._dumps.append(self._recorder.read(file))
        except DamagedDumpError as error:
            self._damaged.append(file.name)
            self._notes.append(str(error))
        except OSError as error:
            raise UnreadableInputError(
                f"cannot read '{file.name}': {error.strerror or error}; check that it may be read"
            ) from error

    def facts(self) -> JobFacts:
        """What has been seen so far."""
        return self._builder.build(
            channels=self._scanner.tally.channels,
            channel_event=self._scanner.tally.channel_event,
            files=tuple(self._files),
            lines=(self._scanner.gate.lines, self._scanner.gate.nccl_lines),
            repeated=self._scanner.tally.repeated(),
            notes=self._notes,
            dumps=self._dumps,
            damaged_dumps=self._damaged,
            starts_omitted=self._scanner.tally.starts_omitted or self._scanner.deduplicated,
            last_lines=self._scanner.last_lines,
            unended=frozenset(self._unended),
            progress_omitted=self._scanner.progress_omitted,
            steps=self._scanner.steps.shown(),
            done_steps=self._scanner.steps.done(),
            open_tables=self._scanner.steps.open_tables(),
            torn_tracebacks=self._scanner.steps.torn_tracebacks(),
            last_errors=self._scanner.steps.errors(),
            last_hints=self._scanner.steps.hints(),
        )

    def diagnosis(self) -> Diagnosis:
        """The verdict on what has been seen so far."""
        gate = self._scanner.gate
        lines = LineCounts(
            read=gate.lines,
            nccl=min(gate.nccl_lines, gate.lines),
            unreadable=self._scanner.unreadable,
        )
        return diagnose_facts(self.facts(), lines)
