"""Print the score of the logs of threads, and what is wrong with each."""

import sys
from pathlib import Path

from tests.diagnostics.threads import FOLDER, diagnose, read_logs, score


def main() -> int:
    """1 where anything is wrong."""
    files = [Path(name) for name in sys.argv[1:]] or sorted(FOLDER.glob("*.txt"))
    scores = [(log, score(log, diagnose(log.text))) for file in files for log in read_logs(file)]
    for log, one in scores:
        if one.problems:
            print(f"{log.name}: {'; '.join(one.problems)}")
    failed = [one for log, one in scores if log.failed]
    healthy = [one for log, one in scores if not log.failed]
    wrong = sum(len(one.facts) for _, one in scores)
    print(f"facts         {3 * len(scores) - wrong} of {3 * len(scores)} right")
    print(f"causes        {sum(not one.cause_missed for one in failed)} of {len(failed)} found")
    print(f"top finding   {sum(not one.other_on_top for one in failed)} of {len(failed)} right")
    print(f"failed runs   {sum(one.failure_missed for one in failed)} that are not called critical")
    print(f"false alarms  {sum(bool(one.false_alarms) for one in healthy)} of {len(healthy)} healthy logs")
    return int(any(one.problems for _, one in scores))


if __name__ == "__main__":
    sys.exit(main())
