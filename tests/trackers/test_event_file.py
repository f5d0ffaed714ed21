"""TensorBoard's event files: byte for byte what its own package (2.21) writes of the same figures."""

import struct
from pathlib import Path

import pytest

from raybench.trackers.event_file import EventFile, crc32c, record, scalars, text

AT = 1795461770.25
# Of tensorboard.summary.writer.record_writer.RecordWriter and tensorboard.compat.proto.
SCALARS = (
    "3700000000000000e7e8ca5909000090a224c1da41100c2a2a0a0f0a086464702f6c6f7373150000c8400a170a106464702f737465705f"
    "7365636f6e6473150000003ecc4ba321"
)
TEXT = (
    "3500000000000000d6c55de609000090a224c1da4110ac022a270a250a07766572646963744210080712041202080142062a2a6f6b2a2a4a"
    "080a060a0474657874c3b37c85"
)


@pytest.mark.parametrize(
    ("data", "found"),
    [(bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E)],
)
def test_the_checksum_is_that_of_rfc_3720(data: bytes, found: int) -> None:
    assert crc32c(data) == found


def test_records_are_those_of_tensorboards_own_writer() -> None:
    figures = {"ddp/loss": 6.25, "ddp/step_seconds": 0.125}
    assert record(scalars(figures, step=12, at=AT)).hex() == SCALARS
    assert record(text("verdict", "**ok**", step=300, at=AT)).hex() == TEXT


def contents(path: Path) -> list[bytes]:
    """The contents of a file whose records are whole."""
    data, found = path.read_bytes(), []
    while data:
        length = struct.unpack("<Q", data[:8])[0]
        content = data[12 : 12 + length]
        assert record(content) == data[: length + 16]
        found.append(content)
        data = data[length + 16 :]
    return found


def test_a_file_says_its_version_first(tmp_path: Path) -> None:
    file = EventFile(tmp_path / "a b/../c", AT)
    file.write(scalars({"x": 1.0}, step=2**40, at=AT))
    file.close()
    first, second = contents(file.path)
    assert b"brain.Event:2" in first
    assert second.endswith(struct.pack("<f", 1.0))


def test_a_full_disk_leaves_whole_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = EventFile(tmp_path, AT)
    whole = file.path.read_bytes()
    own = file._file

    class Full:
        """Takes ten bytes, and then nothing."""

        def write(self, data: bytes) -> int:
            if own.tell() > len(whole):
                raise OSError(28, "No space left on device")
            return own.write(data[:10])

        truncate, seek = own.truncate, own.seek

    monkeypatch.setattr(file, "_file", Full())
    with pytest.raises(OSError, match="No space"):
        file.write(scalars({"x": 1.0}, step=1, at=AT))
    assert file.path.read_bytes() == whole
    monkeypatch.setattr(file, "_file", own)
    file.write(scalars({"x": 1.0}, step=1, at=AT))
    assert len(contents(file.path)) == 2
