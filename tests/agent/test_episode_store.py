"""Kept episodes: there after a restart, gone with their question, played again when damaged."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.episode_store import FILE, EpisodeStore
from edge_fed.plant import Episode, Key
from edge_fed.spaces import Spaces

KEY = Key(3, 1, 2, 0, 0xABCD, 77)
REAL = Episode(np.arange(6.0).reshape(3, 2), np.ones((3, 1)), np.array([0.5, -1.0, 2.0]), None, 2)
BOX = Spaces(None, (2,), action_low=(-1.0,), action_high=(1.0,))
CELLS = Spaces(3, (), num_states=5)
TABULAR = Episode(np.array([4, 1]), np.array([2]), np.array([1.0]), True, 0)


def opened(folder: Path, question: str = "train-3", spaces: Spaces = BOX) -> tuple[EpisodeStore, list[str]]:
    """A store at this question, and what it says."""
    said: list[str] = []
    store = EpisodeStore(folder / "episodes", said.append, spaces, 3)
    store.open(question)
    return store, said


@pytest.mark.parametrize(
    ("episode", "spaces"), [(REAL, BOX), (TABULAR, CELLS), (TABULAR._replace(success=False), CELLS)]
)
def test_an_episode_survives_the_process(tmp_path: Path, episode: Episode, spaces: Spaces) -> None:
    """With the kinds of its arrays, in a folder that nobody else can enter."""
    opened(tmp_path)[0].put(KEY, episode)
    store, said = opened(tmp_path, spaces=spaces)
    found = store.get(KEY)
    assert found is not None and found[3:] == episode[3:] and said == []
    for array, other in zip(found[:3], episode[:3], strict=True):
        assert np.array_equal(array, other) and array.dtype == other.dtype
    assert (tmp_path / "episodes").stat().st_mode & 0o777 == 0o700
    assert store.open("train-3") == 1


@pytest.mark.parametrize(
    "other",
    [{"step": 0}, {"purpose": 3}, {"episode": 1}, {"params_crc32": 1}, {"draws_crc32": 1}, {"round": 4}],
)
def test_another_episode_is_not_taken_for_it(tmp_path: Path, other: dict[str, int]) -> None:
    """Each part of the key counts, and each has a file of its own."""
    store, _ = opened(tmp_path)
    store.put(KEY, REAL)
    assert store.get(KEY._replace(**other)) is None
    store.put(KEY._replace(**other), REAL._replace(overridden=3))
    assert same(store.get(KEY), REAL) and store.open("train-3") == 2


def test_a_file_under_the_name_of_other_draws_is_played_again(tmp_path: Path) -> None:
    """Whoever renames it changes no episode."""
    store, _ = opened(tmp_path)
    store.put(KEY, REAL)
    other, folder = KEY._replace(draws_crc32=1), tmp_path / "episodes" / "train-3"
    (folder / FILE.format(KEY)).rename(folder / FILE.format(other))
    assert store.get(other) is None


def test_episodes_of_other_questions_are_deleted(tmp_path: Path) -> None:
    """A round that is over, or the same round with other parameters."""
    store, _ = opened(tmp_path)
    store.put(KEY, REAL)
    assert store.open("train-4") == 0
    assert [path.name for path in (tmp_path / "episodes").iterdir()] == ["train-4"]
    assert store.get(KEY) is None


def test_a_damaged_file_is_said_and_left_out(tmp_path: Path) -> None:
    """Every changed byte, and every torn end, is found or harmless; the episode is written anew."""
    store, said = opened(tmp_path)
    store.put(KEY, REAL)
    (path,) = (tmp_path / "episodes" / "train-3").iterdir()
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        found = store.get(KEY)
        assert found is None or same(found, REAL), place
        path.write_bytes(whole[:place])
        assert store.get(KEY) is None
    assert said and all("is damaged and is played again" in line for line in said)
    store.put(KEY, REAL)
    assert same(store.get(KEY), REAL)


def kept(folder: Path, **other: Any) -> None:
    """A whole file, as the store names it, of the tabular episode with other arrays."""
    about = np.array([KEY.draws_crc32, 2.0, 0.0, 1.0, 1.0])
    arrays = {"states": [4.0, 1.0], "actions": [2.0], "rewards": [1.0], "about": about, **other}
    arrays = {name: np.asarray(array, dtype="<f8") for name, array in arrays.items()}
    np.savez(folder / "episodes" / "train-3" / FILE.format(KEY), **arrays)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "other",
    [
        {"actions": [np.nan]},
        {"actions": [3]},
        {"actions": [-1]},
        {"actions": [1.5]},
        {"actions": [1, 1]},
        {"states": [5, 1]},
        {"states": [1e300, 1]},
        {"states": [[4], [1]]},
        {"rewards": [[1]]},
        {"rewards": 1},
        {"rewards": []},
        {"rewards": [np.inf]},
        {"about": [KEY.draws_crc32, 3, 0, 1, 1]},
        {"about": [KEY.draws_crc32, -1, 0, 1, 1]},
        {"about": [KEY.draws_crc32, 2, -7, 1, 1]},
        {"about": [KEY.draws_crc32, 2, np.inf, 1, 1]},
        {"about": [KEY.draws_crc32, 2, 0, 0, 0]},
        {"about": [KEY.draws_crc32]},
        {"about": KEY.draws_crc32},
    ],
)
def test_a_whole_file_that_is_no_episode_is_played_again(tmp_path: Path, other: dict[str, Any]) -> None:
    """NaN, numbers that no state, action or success has, shapes that do not fit: said, never used."""
    store, said = opened(tmp_path, spaces=CELLS)
    kept(tmp_path)
    assert same(store.get(KEY), TABULAR) and said == []
    kept(tmp_path, **other)
    assert store.get(KEY) is None
    assert len(said) == 1 and "is damaged and is played again" in said[0]


def same(found: Any, wanted: Episode) -> bool:
    """Equal to the bit."""
    return found[3:] == wanted[3:] and all(map(np.array_equal, found[:3], wanted[:3]))
