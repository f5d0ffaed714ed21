"""One physical line to the messages in it: who said it, at which level, and what.

NCCL writes ``host:pid:tid [device] NCCL INFO message`` and, for warnings, the source file before ``NCCL WARN``
(``node1:812:934 [0] init.cc:738 NCCL WARN ...``). Launchers put their own text in front (``[1,0]<stdout>:``, `` 8:
``, ``[rank3]:``, ``(RayTrainWorker pid=1, ip=10.0.0.1)``, ``pod/name``), terminals add colours, and processes that
share a pipe glue their lines together. Nothing is anchored on what comes before the host.
"""

import html
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

_JSON_MESSAGES = ("log", "message", "msg", "MESSAGE", "textPayload", "line", "@message", "stringValue")
_JSON_PARTS = ("jsonPayload", "_source", "body", "record")  # of a record that hold the message
_OPENING = r"(?:^|[=,\[(] ?)([\"'])(?=[^\"']{0,400}NCCL (?:INFO|WARN) )"  # of a message in quotation marks
MAX_WRAPPERS = 3  # one in the other
_LEVEL = r"NCCL (?P<level>INFO|WARN|ATTN|TRACE|CALL|DIAG|ABORT|VERSION)\b:? ?"
_HOST = r"(?P<host>[A-Za-z0-9_<>][\w.\-<>%/+]*)"
_WITH_DEVICE = _HOST + r":(?P<pid>\d+)(?::(?P<thread>\d+))?\s*\[\s*(?P<device>-?\d+)\s*\]"
_USUAL = re.compile(  # as bytes: each thread of each process begins its lines otherwise, and is read once
    rb"(?:\s{0,12}(\d{1,7}): |\[\d{1,9},(\d{1,7})\]<std(?:out|err)>:)?"
    rb"([A-Za-z][\w.\-]*):(\d{1,18}):(\d{1,18}) \[(\d{1,18})\] "
)
_DEVICE_ALONE = r"(?<=\s)\[\s{0,3}\d{1,4}\]\s{1,3}(?:[\w/.\-]{1,80}:\d{1,6} )?\Z"  # pasted without its host
_NIC = r"(?:mlx[45]_|bnxt_re|irdma|hfi1_|qedr|efa_|ionic_|rocep|rocePp?|ibp|hns_)[\w\-]*"
_SOURCE_FILE = r"\.(?:cc|cpp|cu|cuh|h|hpp|c)\Z"
_WITHOUT_DEVICE = _HOST + r":(?P<pid>\d+)(?::(?P<thread>\d+))?\s*$"

# up to 2.2 a mark has no name in it: "host:pid:tid [0] INFO text", "host:pid:tid [0] misc/ibvwrap.cu:60 WARN text"
_OLD_MARK = re.compile(rb"(:\d{1,9}:\d{1,9} \[\d{1,4}\] (?:[\w/.\-]{1,80}:\d{1,6} )?)(INFO|WARN) ")
_OLD_MARK_ALONE = re.compile(  # pasted without its host
    rb"^(\W{0,9}(?:src/)?(?:(?:include|misc|transport|graph)/[\w.\-]{1,60}|init|bootstrap|enqueue|rings?|group|nvml)"
    rb"\.(?:cc|cu|h):\d{1,6} )(INFO|WARN) "
)


_STRAIGHT = {0xA0: " ", 0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"'}
_CODE = (  # a line of a log within a sentence, set off as code
    r"^[^`]*`((?=[^`]{0,300}(?:[NR]CCL (?:INFO|WARN) |:\d+ WARN |\b\w*(?:Error|Exception): ))[^`]{15,})`[^`]*$"
)
_TRACEBACK = "Traceback (most recent call last)"
MAX_LINES_IN_ONE = 400


class Message(NamedTuple):
    """One message with what its prefix says; ``level`` is empty for a line without NCCL's own mark."""

    text: str
    level: str = ""
    host: str | None = None
    pid: int | None = None
    thread: int | None = None
    device: int | None = None
    rank: int | None = None
    torn: bool = False  # another message begins inside this one
    glued: bool = False  # begins inside another line, so that the host may carry characters of that line


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)  # compiled when first needed: a short log must not pay for every pattern


def with_name(raw: bytes) -> bytes:
    """A line without NCCL's name, with the name where it has a mark as releases up to 2.2 write it."""
    if b"] INFO " not in raw and b" WARN " not in raw:
        return raw
    named = _OLD_MARK.sub(rb"\1NCCL \2 ", raw, count=1)
    return named if named != raw else _OLD_MARK_ALONE.sub(rb"\1NCCL \2 ", raw, count=1)


def clean(raw: bytes) -> str:
    """A raw line as text without colours, NULs and the parts that a carriage return overwrote."""
    text = raw.decode("utf-8", "replace")
    if text.startswith("{"):
        text = _unwrapped(text)
    if "](http" in text:  # what a web page makes of names and addresses
        text = _compiled(r"\[([^\]\[]{1,200})\]\(https?:[^)\s]{1,400}\)").sub(r"\1", text)
    if "&" in text and _compiled(r"&(?:lt|gt|amp|quot|apos|#x?[0-9a-fA-F]{1,6});").search(text):  # a saved web page
        text = html.unescape(text)
    if '"' in text or "\\'" in text or "['" in text:
        text = _unquoted(text)
    text = _without_colours(text)
    if "\x00" in text:
        text = text.replace("\x00", "")
    if text.rstrip()[-1:] in ("*", "_", "`"):  # a line set off as bold, emphasised or code
        text = _compiled(r"^(\s*(?:[-*+] )?)(\*\*|__|[*_`])(.+)\2\s*$").sub(r"\1\3", text)
    if not text.isascii():  # what chat programs and web pages make of blanks and quotation marks
        text = text.translate(_STRAIGHT)
    if "`" in text:
        text = _compiled(_CODE).sub(r"\1", text)
    if "\r" in text:
        text = text.rstrip("\r").replace("\r", " ")
    return text


def _without_colours(text: str) -> str:
    if "\x1b" in text:
        text = _compiled(r"\x1b(?:\[[0-9;?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)?)").sub("", text)
    if "[0m" in text or "[0;" in text:  # pasted: the escape character is gone, or spelled out
        text = _compiled(r"(?:\^\[|\\(?:u001[bB]|x1[bB]|033|e)|[\u241b\ufffd])?\[(?:\d{1,3}(?:;\d{1,3}){0,4})?m").sub(
            "", text
        )
    return text


def _unwrapped(text: str) -> str:
    """The message of a line that log collectors wrapped in JSON, such as docker's json-file driver."""
    for _ in range(MAX_WRAPPERS):
        if not (text.startswith("{") and text.rstrip().endswith("}")):
            break
        try:
            message = _message_in(json.loads(text))
        except (ValueError, RecursionError):
            break
        if message is None:
            break
        text = (r"\n" if _TRACEBACK in message else " ").join(message.splitlines())
    return text


def _unquoted(text: str) -> str:
    """The line where its message is a value in quotation marks, of a table, of a list or behind a key, without them."""
    if (opening := _compiled(_OPENING).search(text)) is not None:
        closing = _compiled(rf"(?<!\\){opening[1]}(?=[\s,\])]|$)").search(text, opening.end())
        text = text[: opening.start(1)] + text[opening.end() : closing.start() if closing else len(text)]
    return text.replace("\\'", "'").replace('\\"', '"')


def _message_in(record: Mapping[str, Any]) -> str | None:
    """The text of a record, or of a part of it that holds one as the exports of clouds do; None where it has none."""
    for part in (record, *(record[name] for name in _JSON_PARTS if isinstance(record.get(name), dict))):
        if said := next((part[name] for name in _JSON_MESSAGES if isinstance(part.get(name), str)), None):
            return str(said)
    return None


def split_messages(text: str) -> Iterator[Message]:
    """Every NCCL message in a cleaned physical line; nothing for a line without NCCL's mark."""
    marks = list(_compiled(_LEVEL).finditer(text))
    previous_end = 0
    for index, mark in enumerate(marks):
        head = text[previous_end : mark.start()]
        following = marks[index + 1] if index + 1 < len(marks) else None
        end = len(text) if following is None else _start_of_prefix(text, mark.end(), following.start())
        previous_end = end
        yield _message(head, mark["level"], text[mark.end() : end].strip(), torn=following is not None, glued=index > 0)


def start_of_next(text: str, start: int) -> int:
    """Where the prefix of NCCL's next message behind a place begins; the end of the text where there is none."""
    mark = _compiled(_LEVEL).search(text, start)
    return len(text) if mark is None else _start_of_prefix(text, start, mark.start())


def _start_of_prefix(text: str, start: int, stop: int) -> int:
    """Where the prefix of the message whose mark is at ``stop`` begins."""
    found = _compiled(_DEVICE_ALONE).search(text, start, stop)
    for prefix in _compiled(_WITH_DEVICE).finditer(text, start, stop):  # the last one is wanted
        found = found if _names_a_port(prefix) else prefix
    return found.start() if found else stop


def _names_a_port(prefix: re.Match[str]) -> bool:
    """Whether it is a NIC's port at the end of a message, as ``mlx5_1:1``, behind which no host is named."""
    return prefix["thread"] is None and _compiled(_NIC).fullmatch(prefix["host"]) is not None


def _message(head: str, level: str, text: str, *, torn: bool, glued: bool) -> Message:
    prefix = _last_prefix(head)
    rank = launcher_rank(head)
    text = _without_repetition(text)
    if prefix is None:
        return Message(text=text, level=level, rank=rank, torn=torn, glued=glued)
    return Message(
        text=text,
        level=level,
        host=prefix["host"].split(".")[0] or None,
        pid=_bounded(prefix["pid"]),
        thread=_bounded(prefix["thread"]),
        device=_bounded(prefix.groupdict().get("device")),
        rank=rank,
        torn=torn,
        glued=glued,
    )


def with_lines_apart(message: Message) -> list[Message]:
    """The message; of a traceback that stands in one line, as in JSON, its lines."""
    if r"\n" not in message.text or _TRACEBACK not in message.text:
        return [message]
    lines = _compiled(r"\\+n").split(message.text)[-MAX_LINES_IN_ONE:]
    return [message._replace(text=text.strip().removesuffix('"')) for text in lines if text.strip()]


def speaker_of(head: bytes) -> Message:
    """Who speaks in a message at level INFO, by the text before NCCL's mark, all of it ASCII."""
    if (usual := _USUAL.fullmatch(head)) is None:
        return _message(head.decode(), "INFO", "", torn=False, glued=False)
    of_srun, of_mpirun, host, pid, thread, device = usual.groups()
    rank = of_srun or of_mpirun
    return Message(
        "", "INFO", host.partition(b".")[0].decode(), int(pid), int(thread), int(device), int(rank) if rank else None
    )


def _last_prefix(head: str) -> re.Match[str] | None:
    head = head[-2000:]
    found = None
    for found in _compiled(_WITH_DEVICE).finditer(head):  # noqa: B007 - the last one is nearest to the message
        pass
    found = found or _compiled(_WITHOUT_DEVICE).search(head.rstrip())
    return None if found and _compiled(_SOURCE_FILE).search(found["host"]) else found


def _bounded(digits: str | None) -> int | None:
    return int(digits) if digits and len(digits) < 19 else None


def _without_repetition(text: str) -> str:
    """The text without Ray's mark of de-duplicated lines, ``[repeated 7x across cluster]``."""
    return text.split(" [repeated ", 1)[0] if " [repeated " in text else text


def launcher_rank(head: str) -> int | None:
    """The rank in a launcher's prefix: ``[1,8]<stdout>:`` of mpirun, `` 8: `` of srun, ``[rank8]:`` of PyTorch.

    torchrun's ``[default0]:`` is a local rank and is left out.
    """
    match = _compiled(r"^\s*(?:\[rank(\d{1,7})\]:|\[\d+,(\d{1,7})\]<std|(\d{1,7}): )|\[rank(\d{1,7})\]:").search(
        head[:200]
    )
    return int(next(group for group in match.groups() if group)) if match else None


def bare_message(text: str) -> str:
    """A line without NCCL's mark, as people paste it: stripped of quote marks, bullets and a leading time stamp."""
    return _compiled(r"^[>\s|*\-]*(?:\[?\d{4}-\d\d-\d\d[T ][\d:.,]+Z?\]?\s*)?").sub("", text)
