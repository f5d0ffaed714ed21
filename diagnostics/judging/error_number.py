"""Error numbers of Linux, as logs spell them: by number, name or text.

``failed with error Network is unreachable`` (to 2.23), ``failed with 101 Network is unreachable`` (2.24 and newer),
``errno 101``, ``[Errno 101]``, ``RC: -101``, ``(101)``, ``ENETUNREACH``. The table is written out because logs are read
on other systems too, where the numbers differ.
"""

from dataclasses import dataclass
from functools import cache

from diagnostics.parsers.base import compiled

MIN_CUT = 8  # characters of an error's text that are left


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorNumber:
    """An error of a system call: its number, name, and the C library's text."""

    number: int
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.number} {self.name}, {self.text[0].lower()}{self.text[1:]}"


_TABLE = """
1 EPERM Operation not permitted
2 ENOENT No such file or directory
4 EINTR Interrupted system call
5 EIO Input/output error
9 EBADF Bad file descriptor
11 EAGAIN Resource temporarily unavailable
12 ENOMEM Cannot allocate memory
13 EACCES Permission denied
14 EFAULT Bad address
16 EBUSY Device or resource busy
19 ENODEV No such device
22 EINVAL Invalid argument
23 ENFILE Too many open files in system
24 EMFILE Too many open files
28 ENOSPC No space left on device
30 EROFS Read-only file system
32 EPIPE Broken pipe
38 ENOSYS Function not implemented
61 ENODATA No data available
71 EPROTO Protocol error
95 EOPNOTSUPP Operation not supported
97 EAFNOSUPPORT Address family not supported by protocol
98 EADDRINUSE Address already in use
99 EADDRNOTAVAIL Cannot assign requested address
100 ENETDOWN Network is down
101 ENETUNREACH Network is unreachable
102 ENETRESET Network dropped connection on reset
103 ECONNABORTED Software caused connection abort
104 ECONNRESET Connection reset by peer
105 ENOBUFS No buffer space available
107 ENOTCONN Transport endpoint is not connected
110 ETIMEDOUT Connection timed out
111 ECONNREFUSED Connection refused
112 EHOSTDOWN Host is down
113 EHOSTUNREACH No route to host
115 EINPROGRESS Operation now in progress
121 EREMOTEIO Remote I/O error
122 EDQUOT Disk quota exceeded
125 ECANCELED Operation canceled
"""


@cache
def error_numbers() -> tuple[ErrorNumber, ...]:
    """The numbers that are known, in order."""
    rows = (line.split(" ", 2) for line in _TABLE.strip().splitlines())
    return tuple(ErrorNumber(number=int(number), name=name, text=text) for number, name, text in rows)


@cache
def _known() -> dict[str, ErrorNumber]:
    """Number, name and text in lower case -> the error."""
    spellings = {spelling.lower(): one for one in error_numbers() for spelling in (str(one.number), one.name, one.text)}
    return spellings | {"operation timed out": spellings["110"]}


def named_error(message: str) -> ErrorNumber | None:
    """The first error that the message of a failed call names in any spelling; None without one."""
    for match in compiled(_spelled()).finditer(message):
        error = _known().get((match["word"] or match["number"] or "").lower())
        if error is not None:
            return error
    return _known().get(message.strip()) or _cut(message.strip().lower())


def _cut(message: str) -> ErrorNumber | None:
    """The only error whose text begins with a message that a terminal cut; None where it fits several, or is short."""
    fits = [one for one in error_numbers() if one.text.lower().startswith(message)]
    return fits[0] if len(fits) == 1 and len(message) >= MIN_CUT else None


@cache
def _spelled() -> str:
    """An expression that finds all spellings: ``word`` is a text or name, ``number`` stands where one does."""
    texts = sorted((one.text for one in error_numbers()), key=len, reverse=True)
    names = "|".join(one.name for one in error_numbers())
    return (
        rf"(?i)(?P<word>{'|'.join([*texts, 'Operation timed out'])}|\b(?:{names})\b)"
        r"|(?:\b(?:errno|error|rc|ret|code|returned|with)\b\W{0,3}?|\()-?(?P<number>\d{1,3})(?![\d.:/<])"
    )
