"""A line that tells of a step of a training that was done, or of the throughput of a server.

iteration  43/ 100 | elapsed time per iteration (ms): 5444.9 | lm loss: 1.825991E+00        (Megatron)
{'loss': 0.4117, 'learning_rate': 2.1e-06, 'epoch': 0.9}                                    (transformers)
Epoch 1, batch 50, batch avg loss 0.6246                                                    (icefall)
100 images/sec: 290.1 +/- 0.2 (jitter = 1.3)                                                (tf_cnn_benchmarks)
Avg prompt throughput: 12.1 tokens/s, Avg generation throughput: 35.4 tokens/s              (vLLM)
[Rank 0] epoch=0/global_step=34, RunningAvgSamplesPerSec=7.86, CurrSamplesPerSec=7.9                  (DeepSpeed)

Rows of the tables of nccl-tests, fabtests and perftest count as well: each is printed when its size was measured.
"""

from typing import NamedTuple

from diagnostics.parsers.base import compiled

_NUMBER = r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_FINITE = rf"(?:tensor\()?{_NUMBER}(?![\w.]{{0,20}}(?:nan|inf))"
_LOSS = rf"(?i:\b[\w/.-]{{0,40}}loss(?:es)?['\"]?(?:\s*[:=]\s*|\s+is:?\s+|\s+)['\"]?{_FINITE})"
_COUNTER = (
    r"(?i:\b(?:iter(?:ation|s)?|(?:global_)?steps?|epochs?|batch(?:es)?|update)\b"
    r"|\depoch|\d/ ?\d|\bit/s|\bs/it)"
)
_THING = (
    r"(?:tok(?:en)?s?|samples?|images?|imgs?|records?|sequences?|examples?|words|iters?|steps?|global_steps?"
    r"|batch(?:es)?)"
)
_POSITIVE = r"(?!0+(?:\.0*)?(?![\d.]))\d[\d,]{0,20}(?:\.\d+)?[KM]?"
_RATE = (
    rf"(?i:{_THING} ?(?:/|[ _]?per[ _]?) ?s(?:ec(?:ond)?)?\b[^\d|\n]{{0,30}}?[ :=(]{_POSITIVE}"
    rf"|\b{_POSITIVE} ?{_THING} ?(?:/|[ _]?per[ _]) ?s(?:ec(?:ond)?)?\b"
    rf"|TFLOPs?(?:/s)?(?:/GPU)?\)?: *{_POSITIVE}"
    rf"|\b{_POSITIVE} ?(?:sec|ms|s)/step\b"
    rf"|\bloss\b[^|]{{0,80}}\b{_POSITIVE} ?(?:it/s|s/it)\b|\b{_POSITIVE} ?(?:it/s|s/it)\b[^|]{{0,80}}\bloss\b"
    rf"|\b(?:wps|tps): *{_POSITIVE}|bandwidth: *{_POSITIVE} ?[GM]i?B/s, avg_t"
    rf"|elapsed[ _]time[ _]per[ _]iteration[^:]*: *{_POSITIVE})"
)
_SIGNS_OF_A_RATE = ("/s", "/ s", "per", "flop", "s/it", "wps", "tps", "bandwidth")  # one is in all that _RATE matches
# bars of downloads, of loading and of preparing data are no steps
_PREPARES = (
    r"(?i:download|loading|tokeniz|\bmap\b|generating|capturing|filter|preprocess|warm ?up|compil|examples/s\]"
    r"|shards?:|fetching)"
)
_NOT_FINITE = r"(?i:(?:loss|norm)\w*['\"]?(?:\s*[:=]\s*|\s+is:?\s+|\s+)['\"]?(?:tensor\()?[+-]?(?:nan|inf)\b)"

_OF_A_BAR = r"(?<![A-Za-z])(?:it/s|s/it)\b"
_PLACE_OF_A_BAR = r"(?:\d+%[^\d%]{0,200})?(?<![\d.])\d+ ?/ ?\d+(?![\d.])"

_TIMED = r"[\d.]+ +[\d.]+ +[\d.]+ +(?P<{name}>N/A|\d[\d.]*(?:e[+-]\d+)?)"
_ROW_OF_TESTS = (
    r"^\s*(?:\[[\d,]+\]<\w+>: ?)?\s*\d+ +\d+ +(?:u?int\d+|half|float|double|bfloat16|f\w*8\w*) +[a-z]+ +(?:-?\d+ +)?"
    rf"{_TIMED.format(name='wrong')} +{_TIMED.format(name='wrong_in_place')}\s*$"
)
_ROW_BEGUN_OF_TESTS = (  # what stands of one that was cut, or is not measured in place yet
    r"^\s*(?:\[[\d,]+\]<\w+>: ?)?\s*\d+ +\d+ +(?:u?int\d+|half|float|double|bfloat16|f\w*8\w*) +[a-z]+ +(?:-?\d+ +)?"
    r"(?!0+(?:\.0*)? )[\d.]+ +\d+\.\d+ +\d+\.\d+(?: +(?:N/A|0|0e\+00|\de-\d+)(?: +[\d.]+){0,3})?\s*$"
)
_ROW_OF_FABTESTS = r"^\d+[kmg]? +\d+[km]? +[\d.]+[kmg]? +[\d.]+s +(?!0+\.0+ )[\d.]+ +[\d.]+ +[\d.]+\s*$"
_ROW_OF_PERFTEST = r"^\s*\d+\s+\d+\s+[\d.]+\s+(?!0+\.0+\s)\d+\.\d+\s+\d+\.\d+\s*$"
TITLE_OF_PERFTEST = "BW average"
_END_OF_TABLE = r"^\s*-{40,}\s*$|# ?(?:Out of bounds values|Avg bus bandwidth) *: *\d"  # of perftest, of nccl-tests
_RIGHT = r"^(?:N/A|0|0e\+00|\de-\d+)$"  # up to 2.10 the largest deviation, not how many values are wrong


def is_row(line: str, *, titled: bool = False) -> bool:
    """Whether a line is a row of measurements; ``titled``: the title of perftest's table stands before it."""
    if found := compiled(_ROW_OF_TESTS).match(line):
        return all(compiled(_RIGHT).match(wrong) for wrong in found.groups())
    if compiled(_ROW_BEGUN_OF_TESTS).match(line):
        return True
    return bool(compiled(_ROW_OF_FABTESTS).match(line) or (titled and compiled(_ROW_OF_PERFTEST).match(line)))


def ends_table(line: str) -> bool:
    """Whether a line is one that perftest or nccl-tests prints below its last row."""
    return compiled(_END_OF_TABLE).search(line) is not None


def is_last_row(line: str, largest: int, factor: int, increment: int) -> bool:
    """Whether no row follows this one of nccl-tests, which measures sizes in bytes up to the largest.

    Each size is the one before times ``factor``, or plus ``increment`` where that is not 0. A row that is begun is
    none: its size may hang in place.
    """
    if compiled(_ROW_BEGUN_OF_TESTS).match(line):
        return False
    size = compiled(r"\d+").search(line.partition(">:")[2] or line)
    if size is None:
        return False
    following = int(size[0]) + increment if increment else int(size[0]) * factor
    return following > largest


def is_wrong_row(line: str) -> bool:
    """Whether a row of nccl-tests has values that are wrong."""
    return compiled(_ROW_OF_TESTS).match(line) is not None and not is_row(line)


def is_unchecked_row(line: str) -> bool:
    """Whether a row of nccl-tests says that no value was checked (``-c 0``); in place alone some collectives have none.

    >>> is_unchecked_row("  1024  256  float  sum  -1  20.1  0.05  0.09  N/A  20.0  0.05  0.09  N/A")
    True
    """
    found = compiled(_ROW_OF_TESTS).match(line)
    return found is not None and found["wrong"] == "N/A"


def is_step(line: str) -> bool:
    """Whether a line tells that a step was done, by a finite loss beside a counter or by a throughput above zero."""
    small = line.lower()
    named = "loss" in small or any(sign in small for sign in _SIGNS_OF_A_RATE)
    if not named or "CCL " in line or compiled(_PREPARES).search(line):
        return False
    return bool(compiled(_LOSS).search(line) and compiled(_COUNTER).search(line)) or tells_rate(line)


class DoneStep(NamedTuple):
    """A line that tells of a step, or a row of measurements, and how many lines of its file stand behind it."""

    behind: int
    text: str
    row: bool = False


def progress_of(step: str) -> str:
    """What tells a step from the others: of a bar of progress, which is drawn anew while nothing is done, its place.

    >>> progress_of(" 12%|#   | 12/100 [00:10<01:10, 1.2it/s, loss=2.3]")
    '12%|#   | 12/100'
    """
    place = compiled(_PLACE_OF_A_BAR).search(step) if compiled(_OF_A_BAR).search(step) else None
    return place[0] if place else step


def tells_rate(line: str) -> bool:
    """Whether a line tells how much was done in a second, or how long a step took."""
    small = line.lower()
    return any(sign in small for sign in _SIGNS_OF_A_RATE) and compiled(_RATE).search(line) is not None


def is_not_finite(line: str) -> bool:
    """Whether a line tells of a loss, or of a norm of gradients, that is not a finite number."""
    return compiled(_NOT_FINITE).search(line) is not None
