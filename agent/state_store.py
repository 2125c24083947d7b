"""Agent state on disk: one file per round whose update might count, whole or absent.

``<folder>/<run id>/agent-<k>/state-<round>.npz`` holds the state AFTER that round's update. It is written
before the update is sent, and the state before it is kept, because only the server knows which of the two
counts. The initial state needs no file.
"""

import io
from pathlib import Path

import numpy as np

from edge_fed.params import F8
from edge_fed.program.arrays import read_arrays
from edge_fed.program.files import write_atomic

State = dict[str, F8]
FILE = "state-{:06d}.npz"


class StateStore:
    """The states of one agent in one run, by the round that they follow.

    Args:
        folder: Made when the first state is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._states: dict[int, State] = {}

    @classmethod
    def of_agent(cls, folder: Path, run: bytes, agent: int) -> "StateStore":
        """The store of one agent in one run, below the folder of all."""
        return cls(folder / run.hex() / f"agent-{agent}")

    def tags(self) -> frozenset[int]:
        """Rounds whose state is here and readable."""
        names = (path.stem.removeprefix("state-") for path in self.folder.glob("state-*.npz"))
        found = [int(name) for name in names if name.isdecimal() and len(name) < 10]  # others are not ours
        return frozenset(round_ for round_ in found if self.get(round_) is not None)

    def get(self, round_: int) -> State | None:
        """The state after a round; None if it is missing or unreadable."""
        if round_ not in self._states:
            try:
                arrays = read_arrays(self._path(round_))
            except (OSError, ValueError):
                return None
            self._states[round_] = {name: array.copy() for name, array in arrays.items()}
        return self._states[round_]

    def put(self, round_: int, state: State) -> None:
        """Keeps the state after a round."""
        self.folder.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        np.savez(buffer, **state)  # type: ignore[arg-type]  # its stub takes the names for its own options
        write_atomic(self._path(round_), buffer.getvalue(), sync=False)
        self._states[round_] = state

    def keep_only(self, round_: int) -> None:
        """Forgets every state but the one after ``round_``: the others never counted, or no longer do."""
        self._states = {tag: state for tag, state in self._states.items() if tag == round_}
        for path in self.folder.glob("state-*.npz"):
            if path != self._path(round_):
                path.unlink(missing_ok=True)

    def _path(self, round_: int) -> Path:
        return self.folder / FILE.format(round_)
