"""Episodes of a piece of work on disk: an agent that was killed goes on with those that it has.

``<state>/<run id>/agent-<k>/episodes/<question>/`` holds one file per episode, whole or absent. The question
names the work with the checksum of its parameters; the folders of other questions are stale and are deleted.
They hold trajectories, which nobody else may see: the folder has mode 0700.
"""

import io
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from edge_fed.plant import Episode, Key
from edge_fed.program.arrays import read_arrays
from edge_fed.program.files import write_atomic

FILE = "{0.round:06d}-{0.step:06d}-{0.purpose:03d}-{0.episode:06d}-{0.params_crc32:08x}.npz"
ARRAYS = ("states", "actions", "rewards", "about")
SUCCESS = (None, False, True)  # by its number in the file, from 0


class EpisodeStore:
    """The episodes of the current question.

    Args:
        folder: Made when the first question is opened.
        warn: Takes a line for people.
    """

    def __init__(self, folder: Path, warn: Callable[[str], None]) -> None:
        self._all = folder
        self._warn = warn
        self._folder = folder

    def open(self, question: str) -> int:
        """From now on episodes belong to this question; all others are deleted.

        Returns:
            How many are there.
        """
        self._all.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = self._all / question
        for other in self._all.iterdir():
            if other != self._folder:
                shutil.rmtree(other, ignore_errors=True)
        self._folder.mkdir(exist_ok=True)
        return len(list(self._folder.glob("*.npz")))

    def get(self, key: Key) -> Episode | None:
        """The episode; None: it is not there, was of other draws, or is damaged, which is said."""
        path = self._folder / FILE.format(key)
        try:
            states, actions, rewards, about = map(read_arrays(path).__getitem__, ARRAYS)
            draws, success, overridden, tabular, finite = map(int, about)
            kinds = (np.int64 if tabular else np.float64, np.int64 if finite else np.float64)
            found = Episode(
                states.astype(kinds[0]), actions.astype(kinds[1]), rewards, SUCCESS[success], overridden
            )
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, IndexError) as error:
            self._warn(f"a kept episode is damaged and is played again: {path.name}: {error}")
            return None
        return found if draws == key.draws_crc32 else None

    def put(self, key: Key, episode: Episode) -> None:
        """Keeps an episode.

        Raises:
            OSError: It cannot be written.
        """
        success = SUCCESS.index(episode.success)
        kinds = (episode.states.dtype == np.int64, episode.actions.dtype == np.int64)
        about = np.array([key.draws_crc32, success, episode.overridden, *kinds], dtype=np.float64)
        states, actions, rewards, _ = (np.asarray(a, dtype="<f8") for a in (*episode[:3], about))
        buffer = io.BytesIO()
        np.savez(buffer, states=states, actions=actions, rewards=rewards, about=about)
        write_atomic(self._folder / FILE.format(key), buffer.getvalue(), sync=True)
