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

from edge_fed.params import F8, I8
from edge_fed.plant import Episode, Key
from edge_fed.plant_sampler import fits
from edge_fed.program.arrays import read_arrays
from edge_fed.program.files import write_atomic
from edge_fed.spaces import Spaces

FILE = (
    "{0.round:06d}-{0.step:06d}-{0.purpose:03d}-{0.episode:06d}-{0.params_crc32:08x}-{0.draws_crc32:08x}.npz"
)
ARRAYS = ("states", "actions", "rewards", "about")
LARGEST = 2.0**53  # float64 holds every whole number below it
SUCCESS = (None, False, True)  # by its number in the file, from 0


class EpisodeStore:
    """The episodes of the current question.

    Args:
        folder: Made when the first question is opened.
        warn: Takes a line for people.
        spaces: Of the plant.
        steps: H+1, the most that an episode has.
    """

    def __init__(self, folder: Path, warn: Callable[[str], None], spaces: Spaces, steps: int) -> None:
        self._all = folder
        self._warn = warn
        self._spaces = spaces
        self._steps = steps
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
        """The episode; None: it is not there, was of other draws, or is damaged or none, which is said."""
        path = self._folder / FILE.format(key)
        try:
            draws, found = _episode(read_arrays(path))
            if not (fits(found, self._spaces, self._steps) and _within(found, self._spaces)):
                raise ValueError("it is no episode of this plant")
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError) as error:
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


def _episode(arrays: dict[str, F8]) -> tuple[int, Episode]:
    """The checksum of the draws, and the episode.

    Raises:
        KeyError: An array is not there.
        ValueError: One is not what `EpisodeStore.put` writes.
    """
    states, actions, rewards, about = map(arrays.__getitem__, ARRAYS)
    draws, success, overridden, tabular, finite = _whole(np.atleast_1d(about)).tolist()
    if rewards.ndim != 1 or success not in range(len(SUCCESS)) or overridden < 0:
        raise ValueError("its rewards or its counts cannot be")
    kept = (_whole(states) if tabular else states, _whole(actions) if finite else actions, rewards)
    return draws, Episode(*kept, SUCCESS[success], overridden)


def _whole(numbers: F8) -> I8:
    """As integers; what is none is not rounded to one.

    Raises:
        ValueError: One is a fraction, NaN, or too large.
    """
    if not (np.abs(numbers) < LARGEST).all() or (numbers % 1 != 0).any():
        raise ValueError("a whole number is none")
    return numbers.astype(np.int64)


def _within(episode: Episode, spaces: Spaces) -> bool:
    """Whether numbers of states and actions are below their counts; a box's actions are kept unclipped."""
    counted = ((episode.states, spaces.num_states), (episode.actions, spaces.num_actions))
    return all(n is None or bool((array >= 0).all() and (array < n).all()) for array, n in counted)
