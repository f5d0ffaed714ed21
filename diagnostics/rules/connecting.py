"""Attempts to connect that NCCL repeats, at level INFO; no warning follows where the job is ended before the last."""

from diagnostics.events import Event
from diagnostics.facts import JobFacts

MIN_ATTEMPTS = 5  # a peer that starts later is refused a few times


def unanswered(facts: JobFacts) -> list[Event]:
    """The retries of processes that tried often, up to the end of what they print, and never came to work."""
    retries = [event for event in facts.of("connect-retry") if not facts.survived(event)]
    last = max((event.number("attempt") or 0 for event in retries), default=0)
    return retries if max(last, facts.count("connect-retry")) >= MIN_ATTEMPTS else []
