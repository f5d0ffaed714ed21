"""Phases of a run by the names that others know them by, and how long one of its start may take."""

MEASURING, SEARCHING, LEAVING = "measuring", "looking for the cause", "leaving the cluster"
AFTERWARDS = {SEARCHING, LEAVING}  # phases that nothing goes wrong in, but before
_LEAST_START_SECONDS = 30.0


def start_seconds(timeout_seconds: float, most: float) -> float:
    """How long a step of the start may take: as long as a benchmark may, but no shorter than a loaded machine needs."""
    return min(max(timeout_seconds, _LEAST_START_SECONDS), most)
