"""The run folder as the server writes it: journals, checkpoints, summary.

Commit of a round: array file and sidecar are written aside and renamed; the sidecar's rename is the commit.
The line of ``metrics.jsonl`` follows and can be restored from the sidecar, see `server.recovery`.

Durability ``process`` (a kill -9 loses nothing): files are forced to the disk once a second, by `sync` in
another thread. ``power``: every commit is, with its folder.
"""

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from edge_fed.params import F8, little_endian, params_sha256
from edge_fed.program.files import sync_folder, write_all, write_atomic
from edge_fed.program.run_folder import SCHEMA, RunFolder
from server.arrays import Archive
from server.events import Commit
from server.ledger import Book

LARGE_BYTES = 1024 * 1024  # parameters beyond it are written in a thread


class Sidecar(msgspec.Struct, frozen=True):
    """What makes an array file a checkpoint, as it is read.

    Attributes:
        schema: Of the run folder.
        run_id: Hex.
        round: Committed round.
        params_sha256: Of its array ``params``.
        dimension: Its length.
        line: The round's line in ``metrics.jsonl``; None for round 0.
        book: The server's bookkeeping.
        control_sha256: Of its array ``control``; empty: the run has no correction, the file no such array.
    """

    schema: int
    run_id: str
    round: int
    params_sha256: str
    dimension: int
    line: dict[str, Any] | None
    book: Book
    control_sha256: str = ""


class Recorder:
    """Appends and commits; one per server process, under the folder's lock.

    Args:
        folder: The run folder.
        die: Ends this process as SIGKILL would; for the kill point between array and sidecar.
    """

    def __init__(self, folder: RunFolder, die: Callable[[], None]) -> None:
        self._folder = folder
        self._die = die
        self._power = folder.config.federation.durability == "power"
        self._keep = folder.config.federation.keep_checkpoints
        self._files = {path: _append(path) for path in (folder.metrics, folder.evaluations, folder.events)}
        self._archive: Archive | None = None
        self._next_array = folder.checkpoints / ".next.npz"
        self._next_sidecar = folder.checkpoints / ".next.json"
        self._newest: int | None = None
        self._synced: int | None = None

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

    def commit(self, command: Commit, sent: int, received: int) -> dict[str, Any]:
        """Writes a checkpoint and the round's line.

        Args:
            command: What to commit.
            sent: Bytes sent since the last line.
            received: Bytes received since then.

        Returns:
            The line of ``metrics.jsonl``; empty for round 0.
        """
        array, sidecar = self._folder.checkpoint(command.round)
        self._write_arrays(command.arrays)
        os.rename(self._next_array, array)
        if command.die:
            self._die()
        line = _metrics_line(command, sent, received)
        params, control = _digests(command)
        text = msgspec.json.encode(line or None)
        content = {
            "schema": SCHEMA,
            "run_id": self._folder.run_id.hex(),
            "round": command.round,
            "params_sha256": params,
            "dimension": command.params.size,
            "line": msgspec.Raw(text),
            "book": command.book,
            "control_sha256": control,
        }
        _fill(self._next_sidecar, msgspec.json.encode(content), sync=self._power)
        os.rename(self._next_sidecar, sidecar)
        if line:
            write_all(self._files[self._folder.metrics], text + b"\n")
        if self._power:
            os.fsync(self._files[self._folder.metrics])
            sync_folder(self._folder.checkpoints)
        self._newest = command.round
        if self._keep and command.round >= self._keep:
            self._forget(command.round - self._keep)
        return line

    def sync(self) -> None:
        """Forces what was written so far to the disk, and names the newest checkpoint in ``latest``."""
        newest = self._newest
        if newest is not None and newest != self._synced:
            for path in self._folder.checkpoint(newest):
                _sync_file(path)
            latest = self._folder.checkpoints / "latest"
            write_atomic(latest, f"round-{newest:06d}\n".encode(), sync=False)
            sync_folder(self._folder.checkpoints)
            self._synced = newest
        for descriptor in self._files.values():
            os.fsync(descriptor)

    def summary(self, content: Mapping[str, Any]) -> None:
        """Writes ``summary.json``."""
        data = msgspec.json.format(msgspec.json.encode({"schema": SCHEMA, **content}))
        write_atomic(self._folder.summary, data, sync=True)

    def close(self) -> None:
        """Forces everything to the disk and closes the files."""
        try:
            self.sync()
        finally:
            for descriptor in self._files.values():
                os.close(descriptor)
            self._files.clear()

    def _write_arrays(self, arrays: Mapping[str, F8]) -> None:
        if sum(array.nbytes for array in arrays.values()) <= LARGE_BYTES:
            self._archive = self._archive or Archive(arrays["params"].size, tuple(arrays))
            _fill(self._next_array, self._archive.pack(*arrays.values()), sync=self._power)
            return
        with self._next_array.open("wb") as file:
            np.savez(file, **{name: little_endian(array) for name, array in arrays.items()})  # type: ignore[arg-type]
            file.flush()
            if self._power:
                os.fsync(file.fileno())

    def _line(self, path: Path, content: Mapping[str, Any]) -> None:
        write_all(self._files[path], msgspec.json.encode(content) + b"\n")

    def _forget(self, round_: int) -> None:
        """Takes a checkpoint back and keeps its two files for the next one.

        Removing and creating files at 1,000 rounds/s would be slow: ext4 looks through all inodes freed in
        the last seconds before it gives out a new one (measured: 1.0 ms per round instead of 0.1 ms).
        """
        array, sidecar = self._folder.checkpoint(round_)
        with contextlib.suppress(FileNotFoundError):
            os.rename(sidecar, self._next_sidecar)
            os.rename(array, self._next_array)


def load_params(folder: RunFolder, round_: int) -> F8 | None:
    """The parameters of a committed round, read-only; None if it is not kept."""
    sidecar = folder.checkpoint(round_)[1]
    if not sidecar.exists():
        return None
    return load_arrays(folder, msgspec.json.decode(sidecar.read_bytes(), type=Sidecar))["params"]


def load_arrays(folder: RunFolder, sidecar: Sidecar) -> dict[str, F8]:
    """The arrays of a checkpoint by name, read-only: ``params``, with a correction also ``control``.

    Raises:
        OSError, ValueError, KeyError, BadZipFile: They are not there, or not those that the sidecar states.
    """
    path, found = folder.checkpoint(sidecar.round)[0], {}
    expected = {"params": sidecar.params_sha256}
    if sidecar.control_sha256:
        expected["control"] = sidecar.control_sha256
    with np.load(path, allow_pickle=False) as file:
        for name, digest in expected.items():
            array: F8 = np.ascontiguousarray(file[name], dtype=np.float64)
            if params_sha256(array) != digest:
                raise ValueError(f"{name} of {path.name} does not have the hash that its sidecar states")
            array.flags.writeable = False
            found[name] = array
    return found


def _digests(command: Commit) -> tuple[str, str]:
    """Hashes of parameters and control variate; of a round its record has them already."""
    if command.record is not None:
        return command.record.params_sha256, command.record.control_sha256
    control = command.control
    return params_sha256(command.params), "" if control is None else params_sha256(control)


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


def _fill(path: Path, data: bytes | memoryview, *, sync: bool) -> None:
    """Makes ``data`` the content of a file that may exist; never empties it first, which would flush it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        write_all(descriptor, data)
        os.ftruncate(descriptor, len(data))
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _append(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)


def _sync_file(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:  # not kept any longer
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
