"""Files that are whole or absent."""

import errno
import os

import pytest

from edge_fed.program.files import sync_folder, write_atomic


@pytest.mark.parametrize("sync", [False, True])
def test_a_file_is_replaced_whole_and_leaves_nothing_aside(tmp_path, sync):
    """The new content stands under the name, and no partial file is left."""
    target = tmp_path / "state.bin"
    write_atomic(target, b"old", sync=sync)
    write_atomic(target, b"new content", sync=sync)
    sync_folder(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["state.bin"]
    assert target.read_bytes() == b"new content"


def test_a_missing_folder_is_an_error_and_nothing_is_written(tmp_path):
    """Writing into no folder raises what the system says."""
    with pytest.raises(FileNotFoundError):
        write_atomic(tmp_path / "no" / "file", b"x", sync=False)


def test_what_is_no_regular_file_is_never_replaced(tmp_path):
    """A device, pipe or folder under the name stays what it is."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="no regular file"):
        write_atomic(pipe, b"x", sync=False)
    assert pipe.is_fifo()
    with pytest.raises(OSError, match="no regular file"):
        write_atomic(tmp_path, b"x", sync=False)


def test_a_full_disk_keeps_the_old_content_and_no_parts(tmp_path, monkeypatch):
    """The error comes out; what was aside is removed, so that trying again does not fill the disk."""
    target = tmp_path / "state.bin"
    write_atomic(target, b"old", sync=False)

    def full(_descriptor, _data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.write", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(target, b"new content", sync=False)
    assert [p.name for p in tmp_path.iterdir()] == ["state.bin"]
    assert target.read_bytes() == b"old"
