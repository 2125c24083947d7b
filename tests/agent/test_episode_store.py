"""Kept episodes: there after a restart, gone with their question, played again when damaged."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.episode_store import EpisodeStore
from edge_fed.plant import Episode, Key

KEY = Key(3, 1, 2, 0, 0xABCD, 77)
REAL = Episode(np.arange(6.0).reshape(3, 2), np.ones((3, 1)), np.array([0.5, -1.0, 2.0]), None, 2)
TABULAR = Episode(np.array([4, 1]), np.array([2]), np.array([1.0]), True, 0)


def opened(folder: Path, question: str = "train-3") -> tuple[EpisodeStore, list[str]]:
    """A store at this question, and what it says."""
    said: list[str] = []
    store = EpisodeStore(folder / "episodes", said.append)
    store.open(question)
    return store, said


@pytest.mark.parametrize("episode", [REAL, TABULAR, TABULAR._replace(success=False)])
def test_an_episode_survives_the_process(tmp_path: Path, episode: Episode) -> None:
    """With the kinds of its arrays, in a folder that nobody else can enter."""
    opened(tmp_path)[0].put(KEY, episode)
    store, said = opened(tmp_path)
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
    """Each part of the key counts, also the draws, which are not in the file's name."""
    store, _ = opened(tmp_path)
    store.put(KEY, REAL)
    assert store.get(KEY._replace(**other)) is None


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


def same(found: Any, wanted: Episode) -> bool:
    """Equal to the bit."""
    return found[3:] == wanted[3:] and all(map(np.array_equal, found[:3], wanted[:3]))
