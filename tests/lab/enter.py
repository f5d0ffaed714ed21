"""Run one command in a node: ``python -I -S enter.py PID FOLDER COMMAND...``, PID being the node's pid 1.

A process joins a pid namespace only by being born in it, so this one stays outside as the parent of the command. It
hands signals on, ends as the command ended (by the same exit status or the same signal), and when it is killed itself
the kernel kills the command. The command leads a session of its own, as one started over SSH does.
"""

import os
import resource
import select
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import kernel
else:  # this file runs on its own, where no package is known
    sys.path.insert(0, str(Path(__file__).parent))
    import kernel

_NOT_ENTERED = 255  # as ssh says that it did not reach the host
_HANDED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def main() -> int:
    """Enter, start the command, wait for it. Returns its exit status, as the shell counts where it was not found."""
    init_pid, folder, *command = sys.argv[1:]
    try:
        node = os.pidfd_open(int(init_pid))
        kernel.enter_namespaces(node, kernel.EVERY_NAMESPACE)
    except OSError as error:
        sys.stderr.write(f"lab: cannot enter the node of pid {init_pid}, was it killed? {error.strerror}\n")
        return _NOT_ENTERED
    os.close(node)
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANDED_ON)
    lives, living = os.pipe()  # the writing end is this process's alone
    child = os.fork()
    if child == 0:
        os.close(living)
        return become(folder, command, lives)
    os.close(lives)
    return accompany(child)


def become(folder: str, command: list[str], parent_lives: int) -> int:
    """Turn into the command. Returns only when that is impossible, or the parent was killed before it was asked for."""
    kernel.die_with_parent(signal.SIGKILL)
    if select.select([parent_lives], [], [], 0)[0]:  # it has ended: the kernel says nothing of an end in the past
        return _NOT_ENTERED
    os.setsid()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDED_ON)
    for number in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.chdir(folder)
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"lab: cannot run {command[0]} in {folder}: {error.strerror}\n")
    return 127


def accompany(child: int) -> int:
    """Hand signals to the command until it ends, then end the same way."""

    def hand_on(number: int, _frame: FrameType | None) -> None:
        os.kill(child, number)

    for number in _HANDED_ON:
        signal.signal(number, hand_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDED_ON)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main())
