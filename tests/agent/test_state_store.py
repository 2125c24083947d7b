"""Agent state on disk: whole or absent, and only what may still count."""

from pathlib import Path

import numpy as np
import pytest

from agent.state_store import StateStore

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
    store = StateStore(tmp_path)
    for round_ in (3, 5, 6):
        store.put(round_, state(float(round_)))
    store.keep_only(5)
    assert store.tags() == StateStore(tmp_path).tags() == {5}
    assert store.get(3) is None and store.get(6) is None and store.get(5) is not None


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 torn", b"not an archive"])
def test_an_unreadable_file_counts_as_missing(content: bytes, tmp_path: Path) -> None:
    """A damaged state is declared missing, so that the server resets it, instead of ending the agent."""
    (tmp_path / "state-000002.npz").write_bytes(content)
    store = StateStore(tmp_path)
    assert store.get(2) is None and store.tags() == frozenset()


@pytest.mark.parametrize(
    "name", ["state-copy.npz", "state-000002 (1).npz", "state-.npz", f"state-{'9' * 40}.npz"]
)
def test_files_of_other_names_are_not_states(name: str, tmp_path: Path) -> None:
    """A copy that somebody made by hand does not end the agent."""
    StateStore(tmp_path).put(2, state(1.0))
    (tmp_path / name).write_bytes((tmp_path / "state-000002.npz").read_bytes())
    assert StateStore(tmp_path).tags() == {2}


def test_no_folder_is_made_for_agents_without_state(tmp_path: Path) -> None:
    """Looking makes nothing."""
    store = StateStore.of_agent(tmp_path, RUN, 1)
    store.keep_only(0)
    assert store.tags() == frozenset() and list(tmp_path.iterdir()) == []


def test_every_changed_byte_is_found_or_harmless(tmp_path: Path) -> None:
    """A state is what it was, or missing; training never goes on from another one."""
    StateStore(tmp_path).put(2, state(1 / 3))
    path, found = tmp_path / "state-000002.npz", 0
    data = path.read_bytes()
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
        read = StateStore(tmp_path).get(2)
        found += read is None
        assert read is None or all(np.array_equal(read[name], state(1 / 3)[name]) for name in ("A", "b"))
    assert found > len(data) / 2
