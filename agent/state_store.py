"""Agent state on disk: one file per round whose update might count, whole or absent.

``<folder>/<run id>/agent-<k>/state-<round>.npz`` holds the state AFTER that round's update. It is written
before the update is sent, and the state before it is kept, because only the server knows which of the two
counts. The initial state needs no file.

A file says whose state of which round it is: a copy from another agent, round or run is none. Nor is one that
holds other arrays than this agent's task keeps, or values that are not finite: it counts as missing, and the
server is told so.
"""

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from edge_fed.params import F8
from edge_fed.program.arrays import read_arrays
from edge_fed.program.exit_codes import ExitCode, ProgramError
from edge_fed.program.files import write_atomic

State = dict[str, F8]
FILE = "state-{:06d}.npz"
OWNER = "of_run_agent_round"  # the array that says so


def default_folder() -> Path:
    """Where agents keep their state if nobody says another place."""
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home).absolute() if home else Path.home() / ".local" / "state") / "edge-fed"


class StateStore:
    """The states of one agent in one run, by the round that they follow.

    Args:
        folder: Made when the first state is written.
        run: Id of the run, 16 bytes.
        agent: Agent id.
        like: A state with the arrays that this agent's have; None: any.
    """

    def __init__(self, folder: Path, run: bytes, agent: int, like: State | None = None) -> None:
        self.folder = folder
        self._run = run
        self._agent = agent
        self._like = like
        self._states: dict[int, State] = {}

    @classmethod
    def of_agent(cls, folder: Path, run: bytes, agent: int, like: State | None = None) -> "StateStore":
        """The store of one agent in one run, below the folder of all."""
        return cls(folder / run.hex() / f"agent-{agent}", run, agent, like)

    def tags(self) -> frozenset[int]:
        """Rounds whose state is here and readable."""
        names = (path.stem.removeprefix("state-") for path in self.folder.glob("state-*.npz"))
        found = [int(name) for name in names if name.isdecimal() and len(name) < 10]  # others are not ours
        return frozenset(round_ for round_ in found if self.get(round_) is not None)

    def get(self, round_: int) -> State | None:
        """The state after a round; None if it is missing, unreadable, or not this agent's."""
        if round_ not in self._states:
            try:
                arrays = read_arrays(self._path(round_))
            except (OSError, ValueError):
                return None
            owner = arrays.pop(OWNER, np.empty(0))
            if not np.array_equal(owner, self._owner(round_)) or not self._fits(arrays):
                return None
            self._states[round_] = {name: array.copy() for name, array in arrays.items()}
        return self._states[round_]

    def put(self, round_: int, state: State) -> None:
        """Keeps the state after a round.

        Raises:
            ProgramError: It cannot be written.
        """
        buffer = io.BytesIO()
        content = {**state, OWNER: self._owner(round_)}
        np.savez(buffer, **content)  # type: ignore[arg-type]  # its stub takes the names for its own options
        with self._writing():
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomic(self._path(round_), buffer.getvalue(), sync=False)
        self._states[round_] = state

    def keep_only(self, round_: int) -> None:
        """Forgets every state but the one after ``round_``: the others never counted, or no longer do.

        Raises:
            ProgramError: They cannot be removed.
        """
        self._states = {tag: state for tag, state in self._states.items() if tag == round_}
        with self._writing():
            for path in self.folder.glob("state-*.npz"):
                if path != self._path(round_):
                    path.unlink(missing_ok=True)

    def _owner(self, round_: int) -> F8:
        """Run, agent and round in numbers that float64 holds exactly."""
        high, low = divmod(self._agent, 2**32)
        return np.array([*self._run, high, low, round_], dtype=np.float64)

    def _fits(self, state: State) -> bool:
        finite = all(np.isfinite(array).all() for array in state.values())
        shapes = {name: array.shape for name, array in state.items()}
        like = shapes if self._like is None else {name: array.shape for name, array in self._like.items()}
        return finite and shapes == like

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ProgramError(
                ExitCode.FAILED,
                f"the agent state cannot be kept in {self.folder}: {error.strerror or error}",
                "make room, or name another --state-dir",
            ) from error

    def _path(self, round_: int) -> Path:
        return self.folder / FILE.format(round_)
