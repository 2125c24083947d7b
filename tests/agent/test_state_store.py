"""Agent state on disk: whole or absent, and only what may still count."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from agent.state_store import StateStore
from edge_fed.program.exit_codes import ExitCode, ProgramError

RUN = bytes(range(16))


def state(value: float) -> dict[str, np.ndarray]:
    """A baseline's statistics."""
    return {"A": np.full((2, 2), value), "b": np.array([value, -value])}


def test_a_state_survives_the_process(tmp_path: Path) -> None:
    """[complaints 44] What was put is read back, bit by bit, by another store of the same run and agent."""
    StateStore.of_agent(tmp_path, RUN, 4).put(7, state(1 / 3))
    again = StateStore.of_agent(tmp_path, RUN, 4)
    found = again.get(7)
    assert again.tags() == {7} and found is not None and sorted(found) == ["A", "b"]
    assert all(np.array_equal(found[name], state(1 / 3)[name]) for name in found)
    assert (tmp_path / RUN.hex() / "agent-4" / "state-000007.npz").is_file()


def test_agents_and_runs_do_not_mix(tmp_path: Path) -> None:
    """Another agent or another run sees nothing."""
    StateStore.of_agent(tmp_path, RUN, 4).put(7, state(1.0))
    assert StateStore.of_agent(tmp_path, RUN, 5).tags() == frozenset()
    assert StateStore.of_agent(tmp_path, RUN[::-1], 4).get(7) is None


def test_keep_only_forgets_in_memory_and_on_disk(tmp_path: Path) -> None:
    """States that never counted and states that no longer count are gone; the kept one stays."""
    store = StateStore(tmp_path, RUN, 4)
    for round_ in (3, 5, 6):
        store.put(round_, state(float(round_)))
    store.keep_only(5)
    assert store.tags() == StateStore(tmp_path, RUN, 4).tags() == {5}
    assert store.get(3) is None and store.get(6) is None and store.get(5) is not None


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 torn", b"not an archive"])
def test_an_unreadable_file_counts_as_missing(content: bytes, tmp_path: Path) -> None:
    """A damaged state is declared missing, so that the server resets it, instead of ending the agent."""
    (tmp_path / "state-000002.npz").write_bytes(content)
    store = StateStore(tmp_path, RUN, 4)
    assert store.get(2) is None and store.tags() == frozenset()


@pytest.mark.parametrize(
    "name", ["state-copy.npz", "state-000002 (1).npz", "state-.npz", f"state-{'9' * 40}.npz"]
)
def test_files_of_other_names_are_not_states(name: str, tmp_path: Path) -> None:
    """A copy that somebody made by hand does not end the agent."""
    StateStore(tmp_path, RUN, 4).put(2, state(1.0))
    (tmp_path / name).write_bytes((tmp_path / "state-000002.npz").read_bytes())
    assert StateStore(tmp_path, RUN, 4).tags() == {2}


def test_no_folder_is_made_for_agents_without_state(tmp_path: Path) -> None:
    """Looking makes nothing."""
    store = StateStore.of_agent(tmp_path, RUN, 1)
    store.keep_only(0)
    assert store.tags() == frozenset() and list(tmp_path.iterdir()) == []


def test_every_changed_byte_is_found_or_harmless(tmp_path: Path) -> None:
    """A state is what it was, or missing; training never goes on from another one."""
    StateStore(tmp_path, RUN, 4).put(2, state(1 / 3))
    path, found = tmp_path / "state-000002.npz", 0
    data = path.read_bytes()
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
        read = StateStore(tmp_path, RUN, 4).get(2)
        found += read is None
        assert read is None or all(np.array_equal(read[name], state(1 / 3)[name]) for name in ("A", "b"))
    assert found > len(data) / 2


@pytest.mark.parametrize(
    ("run", "agent", "round_"), [(RUN[::-1], 4, 7), (RUN, 5, 7), (RUN, 2**40 + 4, 7), (RUN, 4, 8)]
)
def test_a_copied_state_is_missing(tmp_path: Path, run: bytes, agent: int, round_: int) -> None:
    """A file says whose it is: one of another run, agent or round is none."""
    StateStore.of_agent(tmp_path, RUN, 4).put(7, state(1.0))
    (source,) = tmp_path.rglob("state-*.npz")
    other = StateStore.of_agent(tmp_path, run, agent)
    other.folder.mkdir(parents=True, exist_ok=True)
    (other.folder / f"state-{round_:06d}.npz").write_bytes(source.read_bytes())
    assert other.get(round_) is None and round_ not in other.tags()
    assert StateStore.of_agent(tmp_path, RUN, 4).get(7) is not None


@pytest.mark.parametrize(
    "content",
    [
        {"A": np.full((2, 2), np.nan), "b": np.zeros(2)},
        {"A": np.full((2, 2), -np.inf), "b": np.zeros(2)},
        {"A": np.zeros((2, 3)), "b": np.zeros(2)},
        {"A": np.zeros(4), "b": np.zeros(2)},
        {"A": np.zeros((2, 2))},
        {"A": np.zeros((2, 2)), "b": np.zeros(2), "c": np.zeros(1)},
        {},
    ],
)
def test_a_state_that_no_training_leaves_is_missing(tmp_path: Path, content: dict[str, np.ndarray]) -> None:
    """Not finite, of another shape, an array too few or too many: the agent starts again."""
    StateStore(tmp_path, RUN, 4).put(3, content)
    store = StateStore(tmp_path, RUN, 4, like=state(0.0))
    assert store.get(3) is None and store.tags() == frozenset()
    StateStore(tmp_path, RUN, 4).put(3, state(1.0))
    assert store.get(3) is not None


def test_a_state_without_an_owner_is_missing(tmp_path: Path) -> None:
    """As an earlier version wrote it, or somebody by hand."""
    np.savez(tmp_path / "state-000002.npz", **state(1.0))
    assert StateStore(tmp_path, RUN, 4).get(2) is None


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS])
def test_a_state_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """The folder, the cause, what to do next, and an exit code that is documented."""

    def full(*_: object, **__: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr("agent.state_store.write_atomic", full)
    with pytest.raises(ProgramError, match=f"cannot be kept in {tmp_path}: {os.strerror(error)}") as caught:
        StateStore(tmp_path, RUN, 4).put(2, state(1.0))
    assert (caught.value.code, caught.value.hint) == (
        ExitCode.FAILED,
        "make room, or name another --state-dir",
    )


def test_a_wrong_kind_of_file_in_the_folders_place_is_named(tmp_path: Path) -> None:
    """A file where the folder should be, a folder or a pipe where a state should be."""
    (tmp_path / RUN.hex()).write_text("x")
    with pytest.raises(ProgramError, match="agent state cannot be kept in"):
        StateStore.of_agent(tmp_path, RUN, 4).put(2, state(1.0))
    store = StateStore(tmp_path / "here", RUN, 4)
    store.put(2, state(1.0))
    (store.folder / "state-000003.npz").mkdir()
    os.mkfifo(store.folder / "state-000004.npz")
    assert store.get(3) is None and store.get(4) is None and store.tags() == {2}
    with pytest.raises(ProgramError, match="agent state cannot be kept in"):
        store.keep_only(2)
