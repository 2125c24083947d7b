"""A disk that is full, read-only or broken, at any call of a commit: nothing half-written is believed."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.server.small_runs import DEADLY, Kind, before, begin, content, go_on, reopen

CALLS = ("open", "write", "ftruncate", "fsync", "rename")
KINDS = {
    "process": Kind("process", True, 2),
    "power": Kind("power", True, 2),
    "power, large": Kind("power", True, 2, large=True),
}


class Disk:
    """Fails from call number ``at`` on, as a full disk does: a write takes half of its bytes first.

    Args:
        at: The first call that fails; earlier ones work.
        error: Its number.
    """

    def __init__(self, at: int, error: int) -> None:
        self.calls = 0
        self._at = at
        self._error = error

    @contextmanager
    def failing(self) -> Iterator[None]:
        """While this lasts."""
        with mock.patch.multiple("os", **{name: self._call(name, getattr(os, name)) for name in CALLS}):
            yield

    def _call(self, name: str, real: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            self.calls += 1
            if self.calls <= self._at:
                return real(*args, **options)
            if name == "write" and self.calls == self._at + 1:
                real(args[0], bytes(args[1])[: len(args[1]) // 2])
            raise OSError(self._error, os.strerror(self._error))

        return call


@pytest.mark.parametrize(
    ("label", "error"),
    [("process", errno.ENOSPC), ("power", errno.EIO), ("power, large", errno.EROFS)],
)
def test_a_failure_at_any_call_of_a_commit_loses_nothing(tmp_path: Path, label: str, error: int) -> None:
    """[complaints 18, 20, 63] The round counts or does not; once there is room, the run ends as any other."""
    kind = KINDS[label]
    whole = begin(tmp_path / "whole", kind)
    go_on(whole, kind, before(whole, kind).ledger, DEADLY - 1)
    shutil.copytree(whole.path, tmp_path / "begun")
    go_on(whole, kind, before(whole, kind).ledger)
    expected, outcomes, at = content(whole), [], 0
    while True:
        folder = reopen(Path(shutil.copytree(tmp_path / "begun", tmp_path / str(at))))
        disk, ledger = Disk(at, error), before(folder, kind).ledger
        with suppress(OSError), disk.failing():
            go_on(folder, kind, ledger, DEADLY)
        found = before(folder, kind)
        assert found.damaged == () and found.ledger.committed in (DEADLY - 1, DEADLY)
        assert [row["round"] for row in folder.rows(folder.metrics)] == [
            *range(1, found.ledger.committed + 1)
        ]
        outcomes.append(found.ledger.committed)
        go_on(folder, kind, found.ledger)
        assert content(folder) == expected, f"the disk failed at call {at}"
        shutil.rmtree(folder.path)
        if disk.calls <= at:
            break
        at += 1
    assert outcomes == sorted(outcomes), "later failures come after the commit"
    assert set(outcomes) == {DEADLY - 1, DEADLY}
    assert at > (15 if kind.durability == "power" else 10)


@pytest.mark.parametrize("large", [False, True])
def test_a_device_without_room_is_an_error(tmp_path: Path, large: bool) -> None:
    """[complaints 20] The kernel's own ENOSPC, in both ways of writing."""
    kind = Kind(large=large)
    folder = begin(tmp_path / "run", kind)
    go_on(folder, kind, before(folder, kind).ledger, DEADLY - 1)
    ledger = before(folder, kind).ledger
    (folder.checkpoints / ".next.npz").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        go_on(folder, kind, ledger, DEADLY)
    found = before(reopen(folder.path), kind)
    assert (found.ledger.committed, found.damaged) == (DEADLY - 1, ())
