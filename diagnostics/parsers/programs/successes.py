"""How launchers say that all ranks ended with exit code 0, and ranks that they have done all they had to do."""

from diagnostics.parsers.base import Pattern

SUCCEEDED = "run-succeeded"
_OF_A_RANK = r"\b[Rr]ank[ =:]?(?P<rank>\d{1,6})\b\W.*\b(?i:training|job|run|work\w*)\b.*"
_OF_LAUNCHERS = (
    (
        "worker group successfully",
        r"\bworker group successfully finished\b",
        "I1127 api.py:900] [default] worker group successfully finished. Waiting 300 seconds for other agents.",
    ),
    ("Job 'raysubmit_", r"Job 'raysubmit_\w+' succeeded", "Job 'raysubmit_Yg8' succeeded"),
    ("State: COMPLETED", r"^State: COMPLETED \(exit code 0\)", "State: COMPLETED (exit code 0)"),
    ("ExitCode=0:0", r"\bJobState=COMPLETED\b.*\bExitCode=0:0\b", "JobState=COMPLETED Reason=None ExitCode=0:0"),
    (
        "exits successfully",
        r"\[launch\.py:\d+:main\] Process (?P<pid>\d{1,9}) exits successfully",
        "n1: [2023-09-01 14:27:42,681] [INFO] [launch.py:350:main] Process 15832 exits successfully.",
    ),
    *(
        (f"{done} successfully", rf"{_OF_A_RANK} {done} successfully", f"[Rank 0] Training job {done} successfully!")
        for done in ("finished", "completed")
    ),
)

PATTERNS = tuple(
    Pattern(kind=SUCCEEDED, literal=literal, expression=expression, samples=(sample,))
    for literal, expression, sample in _OF_LAUNCHERS
)
