"""The file of ``raybench agent -o``: JSON lines with the machine's monotonic clock; ``clock`` lines tell the time.

{"kind":"clock","schema":"raybench.agent/1","wall_seconds":1795400000.5,"monotonic_seconds":812.25,"host":"gpu-01",...}
{"kind":"reading","monotonic_seconds":813.0,"source":"host","values":{"host/cpu/busy_seconds":4711.5}}
"""

from collections import Counter
from collections.abc import Iterator

from diagnostics.agent.message_reader import MessageReader
from diagnostics.agent.messages import Clock, Reading
from raybench.documents.run.node_samples import known_series
from raybench.timeline.agent_file import is_agent_file
from raybench.timeline.importing.sample import Format, ImportedFileError, Parsed, Sample, Told

_UNTIMED = ""


def _is_it(text: str) -> bool:
    return is_agent_file(text[:200].encode())


def _parse(text: str, _told: Told, where: str) -> Parsed:
    reader, others = MessageReader(), Counter[str]()
    samples = tuple(_samples(reader, text, others))
    if not samples:
        raise ImportedFileError(f"{where} has no reading of raybench agent whose time is known")
    refused = sum(reader.refused.values())
    lines = (f"{refused} lines or values that are none",) if refused else ()
    early = (f"{untimed} readings before the first clock",) if (untimed := others.pop(_UNTIMED, 0)) else ()
    return Parsed(samples=samples, omitted=(*others, *lines, *early))


def _samples(reader: MessageReader, text: str, others: Counter[str]) -> Iterator[Sample]:
    clock: Clock | None = None
    for message in reader.feed(f"{text}\n".encode()):
        if isinstance(message, Clock):
            clock = message
        if not isinstance(message, Reading):
            continue
        if clock is None:
            others[_UNTIMED] += 1
            continue
        at = clock.wall_seconds + message.monotonic_seconds - clock.monotonic_seconds
        for name, value in message.values.items():
            if known_series(name) is None:
                others[name] += 1
            else:
                yield Sample(host=clock.host, at=at, series=name, value=value)


AGENT = Format(title="the file of raybench agent -o", is_it=_is_it, parse=_parse)
