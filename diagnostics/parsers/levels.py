"""The level that a logger gives a line, behind whatever carries the line, and in the forms of structured loggers.

Launchers, containers and collectors of logs put their own text before a line: who printed it, where and when. A level
counts where it is the first word behind them; in JSON under any of the usual keys, with pino's and bunyan's numbers.
"""

from diagnostics.parsers.base import compiled

_TIME = r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z| ?[+-]\d\d:?\d\d)?\]?:?"
_CARRIERS = (
    rf"{_TIME} std(?:out|err) [FP]",  # a container's runtime
    _TIME,
    r"<\d{1,3}>\d \S+ \S+ \S+ \S+ \S+ -",  # syslog, as RFC 5424 has it
    r"(?:<\d{1,3}>)?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ [\w./-]+(?:\[\d+\])?:",  # and as before
    r"\[\d+(?:,\d+)?\]<std(?:out|err)>:",  # mpirun
    r"\([^()]{0,80}\bpid=\d+[^()]{0,80}\)",  # Ray
    r"\[(?:pod/[^\]]{1,200}|rank ?\d+|default\d+|Rank \d+)\]:?",  # kubectl, PyTorch, torchrun
    r"[\w.-]{1,80} +\|",  # docker compose
    r"\d{1,7}:",  # srun
    r"[A-Za-z][\w.-]{0,60}\d[\w.-]{0,20}:",  # pdsh and DeepSpeed: a host
    r"[\w.-]{1,60}-\w{1,20} [\w-]{1,40}(?= [A-Z]{5,8}\b)",  # stern: pod and container
    r"(?![+#(\[{<\"'|])[^\w\s]{1,4}(?=\s)",  # an arrow, stars, a sign
)
_CARRIER = rf"\s*(?:{'|'.join(_CARRIERS)})\s*"
MAX_CARRIERS = 5  # one in the other

_KEYS = r"(?:level|lvl|level_?name|severity|log[._]?level)"
_ERRORS = r"(?:error|err|eror)"
_ENDS = r"(?:fatal|critical|crit|d?panic|emerg(?:ency)?|alert|severe)"
_FORMS = (  # behind the carriers; the name of a level, {}, in any of them
    r"(?:(?-i:{upper})(?=[\s\])|:!]|$))",
    r"(?i:\[{lower} *\])",
    r"(?:^|\s)(?i:{keys}=\"?{lower}\b)",
    r"(?:^|\t)(?i:{lower})\t",
)
_NUMBER = r"\"level\": ?{}\b(?=.*\"(?:time|msg|pid|hostname)\")"
OF_JSON = rf"\"(?i:{_KEYS})\": ?\"(?P<level>(?i:{_ERRORS}|{_ENDS}))\""  # the level beside the message
_MILD_OF_JSON = rf"\"(?i:{_KEYS})\": ?(?:\"(?i:info|notice|debug|trace|warn(?:ing)?)\"|[1-4]0\b)"


def _expression(lower: str, upper: str) -> str:
    first, *others = (form.format(lower=lower, upper=upper, keys=_KEYS) for form in _FORMS)
    return rf"^(?:{first})|{'|'.join(others)}"


_FATAL = _expression(_ENDS, r"FATAL|CRITICAL|CRIT|PANIC|EMERG|SEVERE")
_ERROR = _expression(_ERRORS, "ERROR")


def without_carriers(line: str) -> str:
    """A line without what launchers, containers and collectors put before it.

    >>> without_carriers("[1,1]<stderr>:2026-01-02T03:04:05Z FATAL: node lost")
    'FATAL: node lost'
    """
    for _ in range(MAX_CARRIERS):
        if (carrier := compiled(_CARRIER).match(line)) is None or carrier.end() == len(line):
            break
        line = line[carrier.end() :]
    return line.strip()


def is_error_level(line: str) -> bool:
    """Whether a line is of the level of errors, or of one behind which a program ends."""
    said = without_carriers(line)
    return compiled(_ERROR).search(said) is not None or is_fatal_level(line)


def is_fatal_level(line: str) -> bool:
    """Whether a line is of a level behind which a program ends."""
    return compiled(_FATAL).search(without_carriers(line)) is not None


def of_json(line: str) -> str:
    """The level in an object of JSON: FATAL, ERROR, INFO for all below; empty where it has none, or is no object."""
    if not line.lstrip().startswith("{"):
        return ""
    if found := compiled(OF_JSON).search(line):
        return "FATAL" if compiled(rf"(?i){_ENDS}").fullmatch(found["level"]) else "ERROR"
    if compiled(_NUMBER.format(60)).search(line):
        return "FATAL"
    if compiled(_NUMBER.format(50)).search(line):
        return "ERROR"
    return "INFO" if compiled(_MILD_OF_JSON).search(line) else ""
