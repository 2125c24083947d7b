"""A life on disk: ``live-<goal>.npz``, the policy at hand with its state, and ``.jsonl``, the journal.

The state is written whole after each piece of work, so a crash loses one piece, which is then done again. The
journal may be ahead of it; what lies ahead is cut off before the life goes on.
"""

import fcntl
import json
import os
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from agent.life import State
from agent.policy_file import PolicyFile, packed, read
from edge_fed.params import F8, params_sha256
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.program.files import read_regular, write_atomic

Line = dict[str, Any]
Content = TypeVar("Content")
ANEW = "choose another --state, or remove the file"


class Kept(msgspec.Struct):
    """What is said of a life in its file.

    Attributes:
        of: Whose it is, by name.
        state: To go on from, `agent.life.State`.
    """

    of: dict[str, str] = {}
    state: Any = None


class LifeStore:
    """The files of one life; a context manager, because two lives must not share them.

    Args:
        folder: Made if it is not there; None: nothing is kept, but the journal in memory.
        policy: As it was saved after the adaptation.
        goal: Of the device.
        seed: Of the life.
        plant: The name of its real plant; None: it simulates. What a plant was paid for survives a power cut.

    Attributes:
        lines: The journal.
    """

    def __init__(
        self, folder: Path | None, policy: PolicyFile, goal: int, seed: int, plant: str | None = None
    ) -> None:
        self.lines: list[Line] = []
        self.folder = folder
        self._policy = policy
        self._of = {"initial": params_sha256(policy.initial), "params": params_sha256(policy.params)}
        self._of |= {"goal": str(goal), "seed": str(seed)} | ({"device": plant} if plant else {})
        self._sync = plant is not None
        self._name = f"live-{goal}"
        self._lock: int | None = None

    def __enter__(self) -> "LifeStore":
        if self.folder is None:
            return self
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self._path(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.__exit__()
            why = f"another program lives in {self.folder} as goal {self._name.removeprefix('live-')}"
            raise ProgramError(ExitCode.USAGE, why, "stop it first, or choose another --state") from error
        except OSError as error:
            self.__exit__()
            raise self._fault(error) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def load(self) -> tuple[F8, State]:
        """Parameters ``[d]`` and state to go on with.

        Raises:
            ProgramError: What is there is damaged, or of another life.
        """
        path = self._path(".npz")
        if self.folder is None or not path.exists():
            self._cut(0)
            return self._policy.params.copy(), State()
        found = read(path)
        life = _converted(found.about.get("life", {}), Kept, path)
        names = {**self._of, **life.of}  # of a simulation names no device
        different = [name for name in names if life.of.get(name) != self._of.get(name)]
        if different or found.params.shape != self._policy.params.shape:
            why = f"{path} is of another life: another {', '.join(different)}"
            raise ProgramError(ExitCode.USAGE, why, "choose another --state, or remove it to begin anew")
        state = _converted(life.state, State, path)
        self._cut(state.episode)
        return found.params, state

    def put(self, params: F8, state: State) -> None:
        """Keeps both, whole.

        Raises:
            ProgramError: The disk is full, or the folder is gone.
        """
        if self.folder is None:
            return
        life = {"of": self._of, "state": msgspec.to_builtins(state)}
        about = {**self._policy.about, "life": life}
        try:
            data = packed(PolicyFile(params, self._policy.initial, about))
            write_atomic(self._path(".npz"), data, sync=self._sync)
        except OSError as error:
            raise self._fault(error) from error

    def note(self, line: Line) -> None:
        """Adds a line to the journal.

        Raises:
            ProgramError: As `put`.
        """
        self.lines.append(line)
        if self.folder is None:
            return
        try:
            with self._path(".jsonl").open("a", encoding="utf8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise self._fault(error) from error

    def _cut(self, episode: int) -> None:
        """Reads the journal without what lies ahead of the state; a line that a crash tore is none.

        Raises:
            ProgramError: It cannot be read, or was not written by a life.
        """
        path = self._path(".jsonl")
        if self.folder is None or not path.exists():
            return
        try:
            texts = read_regular(path).decode(errors="replace").splitlines()
            self.lines = [line for line in map(_line, texts) if line and line["episode"] <= episode]
        except (OSError, RecursionError) as error:  # the latter: nested as no line of ours is
            raise ProgramError(ExitCode.USAGE, f"the journal {path} cannot be read: {error}", ANEW) from error
        if len(self.lines) < len(texts):
            data = "".join(json.dumps(line) + "\n" for line in self.lines)
            try:
                write_atomic(path, data.encode(), sync=False)
            except OSError as error:
                raise self._fault(error) from error

    def _path(self, ending: str) -> Path:
        return (self.folder or Path()) / f"{self._name}{ending}"

    def _fault(self, error: OSError) -> ProgramError:
        why = f"the state in {self.folder} cannot be written: {error.strerror}"
        return ProgramError(ExitCode.FAILED, why, "make room, or choose another --state; then run it again")


def _converted(found: Any, kind: type[Content], path: Path) -> Content:
    """What a state file holds as this kind.

    Raises:
        ProgramError: It is damaged.
    """
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise ProgramError(ExitCode.USAGE, f"the state in {path} is damaged: {error}", ANEW) from error


def _line(text: str) -> Line | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("episode"), int) else None
