"""How launchers, schedulers, shells and the kernel say that a process was killed or crashed.

Lines without NCCL's own mark. Beside them stand those of PyTorch, in its own module.
"""

from diagnostics.parsers.base import CARRIED
from diagnostics.parsers.programs.rows import rows

_CRASHES = "Segmentation fault|Bus error|Aborted|Killed|Illegal instruction|Floating point exception"
_KILLED = (
    (
        "is killed by signal: ",
        r"is killed by signal: (?P<signal>[A-Z]\w+(?: \w+)?)",
        "DataLoader worker (pid 4117) is killed by signal: Bus error. It is possible that",
    ),
    (
        "xceeded memory limit",
        r"(?P<signal>exceeded memory limit)",
        "slurmstepd: error: StepId=12.0 exceeded memory limit (123 > 100), being killed",
    ),
    (
        "xceeded job memory limit",
        r"(?P<signal>Exceeded job memory limit)",
        "slurmstepd: error: Exceeded job memory limit",
    ),
    (
        "Killed process",
        r"(?P<signal>[Oo]ut of memory): Killed process",
        "Memory cgroup out of memory: Killed process 4117 (python)",
    ),
    ("EXIT CODE: ", r"EXIT CODE: (?P<number>13[24-7]|139)\b", "=   EXIT CODE: 139"),
    (
        "THE EXIT STRING: ",
        r"TERMINATED WITH THE EXIT STRING: (?P<signal>Segmentation fault|Killed|Bus error|Aborted)",
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)",
    ),
    (
        "running low on memory",
        r"Task was killed due to the node (?P<signal>running low on memory)",
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
    ),
    (
        "ignal: ",
        rf"^(?:.*\] )?Signal: (?P<signal>{_CRASHES}) \(\d{{1,2}}\)",
        "[gpu-a:4117] Signal: Segmentation fault (11)",
    ),
    (
        "Process received signal",
        r"\bProcess received (?P<signal>signal) \*",  # set off as bold, it lacks the first ones
        "[gpu-a:4117] *** Process received signal ***",
    ),
    (
        "node has died",
        r"because its (?:owner's )?node has died",
        "The actor is dead because its node has died. Node Id: 677df2a9020c5db45e755b00",
    ),
    (
        "signaled to shutdown",
        r"Shard process was signaled to shutdown with (?P<signal>signal (?:4|6|7|8|9|11))\b",
        "ERROR shard-manager: text_generation_launcher: Shard process was signaled to shutdown with signal 7 rank=1",
    ),
    (
        "Raylet failed",
        r"Raylet failed\. Shutting down",
        "(pid=81329) E0328 18:23:00.161756 81384 core_worker.cc:382] Raylet failed. Shutting down.",
    ),
    ("OOMKilled", r"\b(?P<signal>OOMKilled)\b(?!\"?: *[Ff]alse)", "      Reason:       OOMKilled"),
    (
        "due to memory pressure",
        r"killed due to (?P<signal>memory pressure)",
        "(raylet) node_manager.cc:3065: 1 Workers (tasks / actors) killed due to memory pressure (OOM)",
    ),
    ("Fatal Python error: Abo", r"Fatal Python error: (?P<signal>Aborted)", "Fatal Python error: Aborted"),
    (
        "Fatal Python error: Ill",
        r"Fatal Python error: (?P<signal>Illegal instruction)",
        "Fatal Python error: Illegal instruction",
    ),
    (
        "error_sighandler",
        r"error_sighandler\].*Caught error: (?P<signal>[\w ]+)",
        "[node1:mpi_rank_3][error_sighandler] Caught error: Segmentation fault (signal 11)",
    ),
    ("Segfault encountered", r"(?P<signal>Segfault) encountered", "!!!!!!! Segfault encountered !!!!!!!"),
    (
        "Fatal Python error: Flo",
        r"Fatal Python error: (?P<signal>Floating point exception)",
        "Fatal Python error: Floating point exception",
    ),
    ("KILLED BY SIGNAL: ", r"KILLED BY SIGNAL: (?P<number>4|6|7|8|9|11)\b", "=   KILLED BY SIGNAL: 9 (Killed)"),
    (
        "xited by signal ",
        r"Exited by (?P<signal>signal (?:4|6|7|8|9|11))\b",
        "Exited by signal 9. The CPU time used is: 12",
    ),
    (
        "terminated by SIG",
        r"terminated by (?P<signal>SIG(?:ILL|ABRT|BUS|FPE|KILL|SEGV))\b",
        "INFO exited: trainer (terminated by SIGKILL; not expected)",
    ),
    ("oom-kill:constraint", r"(?P<signal>oom-kill):constraint", "oom-kill:constraint=CONSTRAINT_MEMCG,task=python"),
    (
        "Kill process ",
        r"(?P<signal>[Oo]ut of memory): Kill process",
        "Memory cgroup out of memory: Kill process 4117 (python)",
    ),
    (
        ": line ",
        r"sh: line \d+: +\d+ (?P<signal>Killed|Segmentation fault|Aborted|Bus error) +\S",
        "2020-11-24 20:22:28.106 /bin/bash: line 27: 318 Killed sh start.sh",
    ),
    (
        "oom-killer",
        r"invoked (?P<signal>oom-killer)",
        "[12.3] python invoked oom-killer: gfp_mask=0x14000c0(GFP_KERNEL)",
    ),
    (
        "Killed process",
        r"^(?!.*[Oo]ut of memory).*(?P<signal>Killed) process \d+ \(.{1,40}\),? (?:UID:\d+ )?total-vm",
        "[3256824.3] Killed process 9666 (python) total-vm:53893188kB, anon-rss:23892380kB",
    ),
    ("]Killed", r"\](?P<signal>Killed)\s*$", " 31%|███    | 331/1063 [01:06<03:59,  3.06it/s]Killed"),
    (
        "oom_reaper: reaped",
        r"(?P<signal>oom)_reaper: reaped process",
        "oom_reaper: reaped process 4117 (python), now anon-rss:0kB",
    ),
    (
        "systemd-oomd",
        r"(?P<signal>systemd-oomd)\S*: Killed ",
        "systemd-oomd[1]: Killed /user.slice due to memory pressure",
    ),
    ("zsh: ", r"^zsh: (?P<signal>killed|segmentation fault|abort|bus error)\b", "zsh: killed     python train.py"),
    (
        " killed  ",
        r"^\[\d+\] +(?:[+-] +)?\d+ (?P<signal>killed)  ",
        "[1]    4117 killed     python train.py",
    ),
    (
        "Killed  ",
        rf"{CARRIED} ?\[\d+\][+-]? +(?P<signal>Killed)  ",
        "[1]+  Killed                  nohup python train.py",
    ),
    ("ignal: ", r"Signal: +\d{1,2} \((?P<signal>SEGV|ABRT|BUS|ILL|FPE|KILL)\)", "        Signal: 11 (SEGV)"),
    ("Abort trap", r"(?P<signal>Abort trap)", "Abort trap: 6"),
    ("Aborted at ", r"(?:^|\* )(?P<signal>Aborted) at \d+ \(unix time", "*** Aborted at 1700000000 (unix time) try x"),
    ("Killed", rf"{CARRIED} ?(?P<signal>Killed)\s*$", "Killed"),
    ("Bus error", rf"{CARRIED} ?(?P<signal>Bus error)(?: \(core dumped\))?\s*$", "Bus error (core dumped)"),
    ("Aborted", rf"{CARRIED} ?(?P<signal>Aborted)\s*$", "Aborted"),
    *(  # as shells say it in other languages
        (word, rf"{CARRIED}.{{0,120}}?(?P<signal>{word})(?: |\(|\s*$)", f"train.sh: line 3: 4117 {word} (core dumped)")
        for word in (
            "已杀死",
            "段错误",
            "总线错误",
            "已放弃",
            "Getötet",
            "Speicherzugriffsfehler",
            "Erreur de segmentation",
        )
    ),
    (
        "(abort+0x",
        r"\blibc\.so\.\d+\((?P<signal>abort)\+0x[0-9a-f]+\)",
        "/lib/x86_64-linux-gnu/libc.so.6(abort+0x141) [0x7fba3cba97f1]",
    ),
)
_NUMBER = r"(?P<number>-(?:4|6|7|8|9|11)|13[24-7]|139)\b"  # of a signal: negative in Python, behind 128 in a shell
_EXITS = (
    ("xitcode", rf"exitcode {{0,3}}: {{0,3}}{_NUMBER}", "  exitcode  : -11 (pid: 280966)"),
    *(
        (
            literal,
            rf"(?:[Ee]xited|exits|returned|finished|terminated|failed) with (?:exit )?(?:code|status)[ :=]*{_NUMBER}",
            sample,
        )
        for literal, sample in (
            ("with exit code", "srun: error: gpu-a: task 3: Exited with exit code 137"),
            ("with code ", "launch.py: error: child process 4117 exited with code -11"),
            ("with status ", "slurmstepd: info: task 0 [2211] exited with status 139"),
        )
    ),
    ("xit Code:", rf"Exit Code: +{_NUMBER}", "      Exit Code:    137"),
    ("exit code", rf"\bexit code[ :=]+{_NUMBER}", "Child process unexpectedly failed with exit code -9"),
    ("return code = ", rf"exits with return code = {_NUMBER}", "['python', 'a.py'] exits with return code = -9"),
    (
        ") received by PID",
        r"Signal \d{1,2} \((?P<signal>SIG(?:ILL|ABRT|BUS|FPE|KILL|SEGV))\) received by PID",
        "  traceback : Signal 11 (SIGSEGV) received by PID 280966",
    ),
    (
        "died with <Signals.",
        r"died with <Signals\.(?P<signal>SIG(?:ILL|ABRT|BUS|FPE|KILL|SEGV)):",
        "subprocess.CalledProcessError: Command '['python']' died with <Signals.SIGKILL: 9>.",
    ),
)

PATTERNS = rows("process-killed", _KILLED, _EXITS)
