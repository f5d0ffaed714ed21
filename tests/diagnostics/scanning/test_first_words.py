"""Warnings of NCCL quoted from their middle are read as whole ones; what other programs say stays theirs."""

import pytest

from diagnostics.facts import JobFacts
from diagnostics.inputs.reader import Batch
from diagnostics.reading import Reading
from diagnostics.scanning.first_words import with_first_words

STATES = "curr state INIT, next state RTR, local GID index 3,; local GID ::, remote GID ::"
JOINED = STATES.replace(";", "")
READ = """
verbs-failed|ibv_modify_qp failed with 110 Connection timed out, on dev rocep1s0f0:1, curr state INIT, next state RTR
verbs-failed|- `ibv_modify_qp failed with 113 No route to host, on dev mlx5_0:1, local GID index 3
verbs-failed|error: ibv_modify_qp failed with error Network is unreachable
verbs-failed|ibv_reg_mr_iova2 failed with error Cannot allocate memory
verbs-failed|curr state INIT, next state RTR, local GID index 7, local GID ::ffff:10.0.0.1, remote GID ::ffff:10.0.0.6
verbs-failed|NCCL WARN ibv_modify_qp failed with error 19
no-interface|getifaddrs failed : Permission denied
no-interface|no socket interface found
peer-closed|recv from 10.0.0.1<4711> failed : Connection reset by peer
peer-closed|recv failed : Connection reset by peer
peer-closed|closed by remote peer node02<35187>
peer-closed|NCCL WARN send to 10.0.0.1<4711> failed: Broken pipe
connect-failed|to 10.0.0.1<4711> returned No route to host, exceeded error retry count after 35 attempts
bind-failed|bind failed : Address already in use
bind-failed|NCCL WARN bind failed: Address already in use
socket-refused|NCCL WARN listen failed: Operation not permitted
shm-extend-failed|posix_fallocate failed : No space left on device
shm-extend-failed|failed to extend /dev/shm/nccl-UbzKZ9 to 9637892 bytes
shm-extend-failed|while creating shared memory segment /dev/shm/nccl-UbzKZ9 (size 9637888)
shm-attach-failed|shm_open failed : No such file or directory
completion-error|with error 12, opcode 0, len 0, vendor err 129 (Recv)
completion-error|status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=129 hca mlx5_0
completion-error|completion from peer 10.2.0.5<33092> with status=12 opcode=0 len=0 vendor err 129 (Recv)
async-event|async fatal event on QP (0x55): local work queue catastrophic error
"""
NOT_READ = """
nginx: recv() failed (104: Connection reset by peer) while reading response header from upstream
recv failed: Connection reset by peer
bind failed: Address already in use
server.c: listen failed : Permission denied by policy
mydb: posix_fallocate failed: No space left on device
test 7 failed : Connection lost
the disk check failed : No space left on device
postfix: connect to mail.x.org[192.0.2.4]:25: No route to host
status=200 opcode=3 path=/x vendor error page
job completion with status=3, vendor errors are listed
next state RUN of the scheduler
connection was closed by remote peer
the queue got an async fatal event
failed to extend /dev/shm/other to 12 bytes
"""


def _facts(*lines: str) -> JobFacts:
    reading = Reading()
    reading.feed(Batch(file="a.log", block="\n".join(["begin", *lines, "end"]).encode(), first=True))
    reading.flush()
    return reading.facts()


@pytest.mark.parametrize("row", READ.strip().splitlines())
def test_a_warning_without_its_first_words_is_read(row: str) -> None:
    kind, text = row.split("|", 1)
    assert _facts(text).count(kind) == 1


@pytest.mark.parametrize("text", NOT_READ.strip().splitlines())
def test_what_other_programs_say_is_no_warning_of_nccl(text: str) -> None:
    assert with_first_words(text) == text
    assert not _facts(text).events


def test_a_whole_warning_stays_as_it_is() -> None:
    whole = (
        f"Call to ibv_modify_qp failed with 61 No data available, on dev mlx5_0:1, {JOINED}",
        "Call to bind failed: x",
    )
    assert [with_first_words(text, marked=marked) for text in whole for marked in (False, True)] == [
        text for text in whole for _ in (False, True)
    ]


@pytest.mark.parametrize("first", ["", "Call to "])
def test_a_message_on_a_queue_pair_is_joined_where_it_was_folded(first: str) -> None:
    head = f"{first}ibv_modify_qp failed with 61 No data available, on dev rocep1s0f0:1,"
    facts = _facts(head, *(f"    {part}" for part in STATES.split("; ")))
    assert [event.fields["detail"] for event in facts.of("verbs-failed")] == [JOINED]
    assert [event.origin.line for event in facts.of("verbs-failed")] == [2]
