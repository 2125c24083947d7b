"""The door: an allow-list that changes while the server runs, and a log that no stranger can fill."""

from pathlib import Path
from typing import Any

import pytest

from edge_fed.program.allow_list import AllowList
from edge_fed.program.exit_codes import ProgramError
from protocol.transport import make_pair
from server.doorkeeper import Doorkeeper
from server.keygen import keygen

STRANGER = make_pair()[0]


class Lines:
    """A logger that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def __getattr__(self, level: str) -> Any:
        return lambda text, **_fields: self.lines.append((level, text))

    def of(self, level: str) -> list[str]:
        """The lines of a level."""
        return [text for found, text in self.lines if found == level]


class Door:
    """A doorkeeper over keys of agents 0 and 1."""

    def __init__(self, folder: Path) -> None:
        keygen(folder, frozenset({0, 1}))
        self.list = folder / "allowed.txt"
        self.log = Lines()
        self.keeper = Doorkeeper(folder, self.log)  # type: ignore[arg-type]
        self.seen: list[AllowList] = []
        self.keeper.changed = self.seen.append

    def admits(self, key: str) -> bool:
        """Whether a key comes in."""
        return self.keeper.admits(key, "192.0.2.1")

    @property
    def keys(self) -> list[str]:
        """The keys of agents 0 and 1."""
        return [line.split()[0] for line in self.list.read_text().splitlines() if line.endswith(".key")]


@pytest.fixture
def door(tmp_path: Path) -> Door:
    """A door with keys."""
    return Door(tmp_path / "keys")


async def test_listed_keys_come_in(door: Door) -> None:
    """And nobody else; the log names the stranger's key and address."""
    assert all(door.admits(key) for key in door.keys)
    assert not door.admits(STRANGER)
    assert len(door.log.of("warning")) == 1
    assert STRANGER in door.log.of("warning")[0] and "192.0.2.1" in door.log.of("warning")[0]


async def test_a_key_that_was_just_listed_comes_in_at_once(door: Door) -> None:
    """Without waiting for the next look at the file."""
    with door.list.open("a") as file:
        file.write(f"{STRANGER} 7\n")
    assert door.admits(STRANGER)
    assert [len(allowed) for allowed in door.seen] == [3]


async def test_a_revoked_key_is_seen_by_the_next_look(door: Door) -> None:
    """Unchanged files are not read again."""
    first, second = door.keys
    door.keeper._look()
    assert not door.seen
    door.list.write_text(f"{second} 1\n")
    door.keeper._look()
    assert [allowed.rights(first) for allowed in door.seen] == [None]
    assert not door.admits(first) and door.admits(second)
    door.keeper.close()


async def test_a_list_with_an_error_changes_nothing(door: Door) -> None:
    """The earlier one holds, the error names the line, once; the corrected one is read."""
    good = door.list.read_text()
    door.list.write_text(good + "nonsense\n")
    for _ in range(3):
        door.keeper._look()
    assert all(door.admits(key) for key in door.keys)
    assert not door.seen
    assert len(door.log.of("error")) == 1
    assert "the earlier one holds" in door.log.of("error")[0] and ", line 8: " in door.log.of("error")[0]
    door.list.write_text(good)
    door.keeper._look()
    assert len(door.seen) == 1
    door.keeper.close()


async def test_a_flood_of_refusals_does_not_fill_the_log(door: Door) -> None:
    """Ten thousand strangers of each kind: one line a kind."""
    for _ in range(10_000):
        assert not door.admits(STRANGER)
        for kind in ("unlisted", "server_key", "plain_peer", "garbage", "broken_off"):
            door.keeper.failed(kind)  # type: ignore[arg-type]
    assert len(door.log.lines) == 5


async def test_an_empty_list_is_said(tmp_path: Path) -> None:
    """Nobody could come."""
    keygen(tmp_path / "keys", frozenset())
    log = Lines()
    Doorkeeper(tmp_path / "keys", log)  # type: ignore[arg-type]
    assert "lists nobody" in log.of("warning")[0]


async def test_a_wrong_list_at_the_start_is_an_error(door: Door) -> None:
    """There is no earlier one."""
    door.list.write_text("nonsense\n")
    with pytest.raises(ProgramError, match="line 1"):
        Doorkeeper(door.list.parent, door.log)  # type: ignore[arg-type]
