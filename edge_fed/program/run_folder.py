"""The run folder: everything a run leaves behind, readable after kill -9.

run.json            run id, name, versions, hash of the configuration
config.json         the resolved configuration
metrics.jsonl       one line per committed round: its record and metrics
evaluations.jsonl   one line per evaluation
events.jsonl        joins, leaves, deadlines, openings, with monotonic times
summary.json        how it ended
checkpoints/        round-000007.npz, and round-000007.json whose rename is the commit
agents/             agent state of agents that the runner started
logs/               one log per process that the runner started
lock                held while a server uses the folder
"""

import datetime
import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from edge_fed.config import RunConfig
from edge_fed.errors import ConfigError
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.program.files import read_regular, write_atomic
from edge_fed.validation import check_run

SCHEMA = 1
PACKAGES = ("edge-fed", "numpy", "pyzmq", "msgpack", "msgspec", "structlog")


class RunFolder:
    """Paths, identity and lock of one run.

    Use `create` for a new run and `open` for an existing one; both are cheap and take no lock.

    Attributes:
        path: As it was given, for messages.
        place: The same, absolute: where its files are, wherever a user's ``os.chdir`` moves this program.
    """

    def __init__(self, path: Path, run_id: bytes, config: RunConfig) -> None:
        self.path = path
        self.place = place = path.absolute()
        self.run_id = run_id
        self.config = config
        self.metrics = place / "metrics.jsonl"
        self.evaluations = place / "evaluations.jsonl"
        self.events = place / "events.jsonl"
        self.summary = place / "summary.json"
        self.checkpoints = place / "checkpoints"
        self.agents = place / "agents"
        self.logs = place / "logs"

    @classmethod
    def create(cls, config: RunConfig, path: Path | None = None, *, overwrite: bool = False) -> "RunFolder":
        """Makes the folder of a new run.

        Args:
            config: The resolved configuration.
            path: Where; default ``runs/<time>-<name>``.
            overwrite: Remove an earlier run that is there (only what is a run folder is removed).

        Raises:
            ProgramError: The folder is in use, not empty, or cannot be made.
        """
        path = path or _unused(Path("runs") / f"{datetime.datetime.now():%Y%m%d-%H%M%S}-{config.name}")
        if overwrite and (path / "run.json").is_file():
            with cls.open(path).locked():
                shutil.rmtree(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise ProgramError(
                    ExitCode.USAGE,
                    f"the run folder {path} is not empty",
                    "name another --run-dir, or go on with that run: python -m server --resume",
                )
            folder = cls(path, secrets.token_bytes(16), config)
            folder.checkpoints.mkdir()
            folder.logs.mkdir()
            folder._write_identity()
        except OSError as error:
            raise ProgramError(
                ExitCode.USAGE, f"cannot make the run folder {path}: {error.strerror}", "choose --run-dir"
            ) from error
        return folder

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """Opens the folder of an earlier run.

        Raises:
            ProgramError: There is none, or it cannot be read.
        """
        try:
            run = json.loads(read_regular(path / "run.json"))
            settings = read_regular(path / "config.json")
            if hashlib.sha256(settings).hexdigest() != run["config_sha256"]:
                raise ValueError("config.json was changed after the run began; start a new run instead")
            return cls(path, bytes.fromhex(run["run_id"]), msgspec.json.decode(settings, type=RunConfig))
        except FileNotFoundError as error:
            raise ProgramError(
                ExitCode.USAGE, f"{path} is no run folder: {Path(error.filename).name} is missing"
            ) from error
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise ProgramError(ExitCode.USAGE, f"the run folder {path} cannot be read: {error}") from error

    def check(self) -> None:
        """Refuses settings that this run cannot have had: edited, with the hash that belongs to them.

        Raises:
            ConfigError: Lists every fault.
        """
        if faults := check_run(self.config):
            raise ConfigError(faults, str(self.path / "config.json"))

    def locked(self) -> "Lock":
        """One server per run folder: an exclusive lock that the system releases when the holder dies."""
        return Lock(self.place / "lock")

    def rows(self, file: Path) -> Iterator[dict[str, Any]]:
        """The whole lines of a JSON-lines file; a torn last line (kill -9) is left out."""
        if not file.exists():
            return
        for line in read_regular(file).splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield json.loads(line)

    def checkpoint(self, round_: int) -> tuple[Path, Path]:
        """Array file and sidecar of a round; the sidecar's existence is the commit."""
        stem = self.checkpoints / f"round-{round_:06d}"
        return stem.with_suffix(".npz"), stem.with_suffix(".json")

    def committed_rounds(self) -> list[int]:
        """Rounds with a committed checkpoint on disk, ascending."""
        numbers = (p.stem.removeprefix("round-") for p in self.checkpoints.glob("round-*.json"))
        return sorted(int(number) for number in numbers if number.isdecimal())

    def _write_identity(self) -> None:
        config = msgspec.json.format(msgspec.json.encode(self.config, order="sorted"))
        run = {
            "schema": SCHEMA,
            "run_id": self.run_id.hex(),
            "name": self.config.name,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "config_sha256": hashlib.sha256(config).hexdigest(),
            "versions": versions(),
        }
        write_atomic(self.path / "config.json", config, sync=False)
        write_atomic(self.path / "run.json", json.dumps(run, indent=1).encode(), sync=False)


class Lock:
    """An advisory file lock as a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def __enter__(self) -> "Lock":
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise ProgramError(
                ExitCode.USAGE,
                f"the run folder {self.path.parent} cannot be written: {error.strerror}",
                "copy it to a place where you may write",
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if not isinstance(error, BlockingIOError):  # some network file systems have no locks
                raise ProgramError(
                    ExitCode.USAGE,
                    f"the run folder {self.path.parent} cannot be locked: {error.strerror}",
                    "choose a --run-dir on a local disk",
                ) from error
            raise ProgramError(
                ExitCode.USAGE,
                f"the run folder {self.path.parent} is in use by another server",
                "stop that one first, or choose another --run-dir",
            ) from error
        self._descriptor = descriptor
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _unused(path: Path) -> Path:
    """The path, or with -2, -3, ... behind it: two runs may begin in the same second."""
    wanted, number = path, 1
    while path.exists():
        number += 1
        path = wanted.with_name(f"{wanted.name}-{number}")
    return path


def versions() -> dict[str, str]:
    """Versions of Python and of the packages whose behaviour decides a run."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found
