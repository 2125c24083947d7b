"""The run folder as the server writes it: journals, checkpoints, summary.

Commit of a round: array file and sidecar are written aside and renamed; the sidecar's rename is the commit.
The line of ``metrics.jsonl`` follows and can be restored from the sidecar, see `server.recovery`. Then the
checkpoints go that nobody needs (`server.retention`).

Durability ``process`` (a kill -9 loses nothing): files are forced to the disk once a second, by `sync` in
another thread. ``power``: every commit is, with its folder.
"""

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from edge_fed.params import F8, little_endian, params_sha256
from edge_fed.program.files import insist_on_file, sync_folder, write_all, write_atomic
from edge_fed.program.run_folder import SCHEMA, RunFolder
from server.arrays import Archive
from server.checkpoint import seal
from server.crash import Crash
from server.events import Commit
from server.retention import Retention

LARGE_BYTES = 1024 * 1024  # parameters beyond it are written in a thread
NONE = -1  # no checkpoint


class Recorder:
    """Appends and commits; one per server process, under the folder's lock.

    Args:
        folder: The run folder.
        die: Ends this process as SIGKILL would; for the kill points of a commit.

    Attributes:
        retention: Which checkpoints are kept, and which is the best.
    """

    def __init__(self, folder: RunFolder, die: Callable[[], None]) -> None:
        self._folder = folder
        self._die = die
        self._power = folder.config.federation.durability == "power"
        self._archive: Archive | None = None
        self._next_array = folder.checkpoints / ".next.npz"
        self._next_sidecar = folder.checkpoints / ".next.json"
        federation, there = folder.config.federation, folder.committed_rounds()
        self._newest = self._synced = NONE
        self._syncing = there[-1] if there else NONE
        self.retention = Retention(federation.keep_checkpoints, federation.keep_best, there)
        for row in folder.rows(folder.evaluations):
            self.retention.evaluated(row)
        self._files = _append_to(folder.metrics, folder.evaluations, folder.events)  # last: they need `close`

    def resume(self, committed: int) -> None:
        """Goes on from a checkpoint of an earlier process, which may have died before it removed others."""
        self._newest = committed

    @property
    def newest(self) -> int:
        """The newest round that is committed, as far as this process knows; -1: none."""
        return self._newest

    @property
    def power(self) -> bool:
        """Whether every commit is forced to the disk."""
        return self._power

    def journal(self, event: str, fields: Mapping[str, Any], now: float) -> None:
        """Appends to ``events.jsonl``; ``t`` is monotonic, ``time`` is that of the wall."""
        head = {"schema": SCHEMA, "t": round(now, 6), "time": round(time.time(), 3), "event": event}
        self._line(self._folder.events, {**head, **fields})

    def evaluation(self, row: Mapping[str, Any]) -> None:
        """Appends to ``evaluations.jsonl``."""
        self._line(self._folder.evaluations, {"schema": SCHEMA, **row})
        self.retention.evaluated(row)

    def commit(self, command: Commit, sent: int, received: int) -> dict[str, Any]:
        """Writes a checkpoint and the round's line.

        Args:
            command: What to commit.
            sent: Bytes sent since the last line.
            received: Bytes received since then.

        Returns:
            The line of ``metrics.jsonl``; empty for round 0.
        """
        crash = Crash(self._die, command.die)
        array, sidecar = self._folder.checkpoint(command.round)
        crash.at("before-array")
        self._write_arrays(command.arrays, crash)
        crash.at("synced-array")
        os.rename(self._next_array, array)
        crash.at("array")
        line = _metrics_line(command, sent, received)
        text = msgspec.json.encode(line or None)
        content = _sidecar(command, self._folder.run_id, text)
        with _filling(self._next_sidecar, len(content), sync=self._power) as descriptor:
            crash.write(descriptor, content, "half-sidecar")
        crash.at("sidecar")
        os.rename(self._next_sidecar, sidecar)
        crash.at("committed")
        if line:
            self._insist_on(self._folder.metrics)
            crash.write(self._files[self._folder.metrics], text + b"\n", "half-line")
        if self._power:
            os.fsync(self._files[self._folder.metrics])
            sync_folder(self._folder.checkpoints)
        self._newest = command.round
        self._retire({*command.needed, self._synced, self._syncing}, crash)
        crash.at("retention")
        return line

    def sync(self) -> None:
        """Forces what was written so far to the disk, and names the newest checkpoint in ``latest``.

        That checkpoint stays until a later one is on the disk too: a power failure finds it.
        """
        newest = self._syncing = self._newest
        files = self._folder.checkpoint(newest)
        if newest not in (NONE, self._synced) and all(_sync_file(path) for path in files):
            latest = self._folder.checkpoints / "latest"
            write_atomic(latest, f"round-{newest:06d}\n".encode(), sync=False)
            sync_folder(self._folder.checkpoints)
            self._synced = newest
        for descriptor in self._files.values():
            os.fsync(descriptor)

    def summary(self, content: Mapping[str, Any]) -> None:
        """Writes ``summary.json``."""
        data = msgspec.json.format(msgspec.json.encode({"schema": SCHEMA, **content}))
        write_atomic(self._folder.summary, data + b"\n", sync=True)

    def close(self) -> None:
        """Forces everything to the disk, removes what was kept for that alone, and closes the files."""
        try:
            self.sync()
            if self._newest != NONE:
                self._retire(set(), Crash(self._die, None))
            for path in (self._next_array, self._next_sidecar):
                path.unlink(missing_ok=True)
        finally:
            for descriptor in self._files.values():
                os.close(descriptor)
            self._files.clear()

    def _write_arrays(self, arrays: Mapping[str, F8], crash: Crash) -> None:
        if sum(array.nbytes for array in arrays.values()) <= LARGE_BYTES:
            self._archive = self._archive or Archive(arrays["params"].size, tuple(arrays))
            data = self._archive.pack(*arrays.values())
            with _filling(self._next_array, len(data), sync=self._power) as descriptor:
                crash.write(descriptor, data, "half-array")
                crash.at("written-array")
            return
        with self._next_array.open("wb") as file:
            np.savez(file, **{name: little_endian(array) for name, array in arrays.items()})  # type: ignore[arg-type]
            file.flush()
            crash.cut(file.fileno(), "half-array")
            crash.at("written-array")
            if self._power:
                os.fsync(file.fileno())

    def _insist_on(self, path: Path) -> None:
        """A journal that was removed or replaced would take what is written with it, unseen.

        Raises:
            OSError: It was. A resume restores the lines of rounds from their checkpoints.
        """
        if not os.path.samestat(os.stat(path), os.fstat(self._files[path])):
            raise OSError(errno.ESTALE, "was replaced by another file while the server ran", str(path))

    def _line(self, path: Path, content: Mapping[str, Any]) -> None:
        self._insist_on(path)
        write_all(self._files[path], msgspec.json.encode(content) + b"\n")

    def _retire(self, needed: set[int], crash: Crash) -> None:
        for round_ in self.retention.commit(self._newest, needed):
            self._forget(round_, crash)

    def _forget(self, round_: int, crash: Crash) -> None:
        """Takes a checkpoint back and keeps its two files for the next one.

        Removing and creating files at 1,000 rounds/s would be slow: ext4 looks through all inodes freed in
        the last seconds before it gives out a new one (measured: 1.0 ms per round instead of 0.1 ms).
        """
        array, sidecar = self._folder.checkpoint(round_)
        with contextlib.suppress(FileNotFoundError):
            os.rename(sidecar, self._next_sidecar)
            crash.at("retention")
            os.rename(array, self._next_array)


def _digests(command: Commit) -> tuple[str, str]:
    """Hashes of parameters and control variate; of a round its record has them already."""
    if command.record is not None:
        return command.record.params_sha256, command.record.control_sha256
    control = command.control
    return params_sha256(command.params), "" if control is None else params_sha256(control)


def _sidecar(command: Commit, run_id: bytes, line: bytes) -> bytes:
    """The content of a sidecar, see `server.checkpoint.Sidecar`."""
    params, control = _digests(command)
    content = {
        "schema": SCHEMA,
        "run_id": run_id.hex(),
        "round": command.round,
        "params_sha256": params,
        "dimension": command.params.size,
        "line": msgspec.Raw(line),
        "book": command.book,
        "control_sha256": control,
    }
    return seal(msgspec.json.encode(content))


def _metrics_line(command: Commit, sent: int, received: int) -> dict[str, Any]:
    if command.record is None:
        return {}
    return {
        "schema": SCHEMA,
        **msgspec.structs.asdict(command.record),
        "seconds": round(command.seconds, 6),
        "arrivals": command.arrivals,
        "bytes_sent": sent,
        "bytes_received": received,
        "metrics": command.metrics,
    }


@contextlib.contextmanager
def _filling(path: Path, size: int, *, sync: bool) -> Iterator[int]:
    """A file that may exist, for ``size`` bytes; never empties it first, which would flush it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        yield descriptor
        os.ftruncate(descriptor, size)
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _append_to(*paths: Path) -> dict[Path, int]:
    """Descriptors of files that grow; all of them or none."""
    found: dict[Path, int] = {}
    try:
        for path in paths:
            found[path] = _append_to_file(path)
    except OSError:
        for descriptor in found.values():
            os.close(descriptor)
        raise
    return found


def _append_to_file(path: Path) -> int:
    # a pipe that nobody reads would block without O_NONBLOCK
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, 0o644)
    insist_on_file(descriptor, path)
    return descriptor


def _sync_file(path: Path) -> bool:
    """Forces a file to the disk; False: it is not kept any longer."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return True
