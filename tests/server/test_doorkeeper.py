"""The door: an allow-list that changes while the server runs, and a log that no stranger can fill."""

import os
from pathlib import Path
from typing import Any

import pytest

from edge_fed.program.allow_list import AllowList
from edge_fed.program.exit_codes import ProgramError
from edge_fed.program.keys import AllowFile
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

    def looks(self, times: int) -> None:
        """The next looks at the list."""
        for _ in range(times):
            self.keeper.close()
            self.keeper._look()

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


async def test_a_revoked_key_is_seen_by_the_next_looks(door: Door) -> None:
    """Unchanged files are not read again."""
    first, second = door.keys
    door.looks(2)
    assert not door.seen
    door.list.write_text(f"{second} 1\n")
    door.looks(2)
    assert [allowed.rights(first) for allowed in door.seen] == [None]
    assert not door.admits(first) and door.admits(second)
    door.keeper.close()


async def test_a_revoked_key_that_comes_again_is_called_revoked(door: Door) -> None:
    """Nobody is invited to undo it; a key that is listed again is none."""
    first, second = door.keys
    door.list.write_text(f"{second} 1\n")
    door.keeper.read_again()
    assert not door.admits(first)
    assert door.log.of("warning") == [f"refused a connection from 192.0.2.1: the key {first} was revoked"]
    door.list.write_text(f"{first} 0\n{second} 1\n")
    door.keeper.read_again()
    assert door.admits(first)


async def test_a_list_with_an_error_changes_nothing(door: Door) -> None:
    """The earlier one holds, the error names the line, once; the corrected one is read."""
    good = door.list.read_text()
    door.list.write_text(good + "nonsense\n")
    door.looks(4)
    assert all(door.admits(key) for key in door.keys)
    assert not door.seen
    assert len(door.log.of("error")) == 1
    assert "the earlier one holds" in door.log.of("error")[0] and ", line 8: " in door.log.of("error")[0]
    door.list.write_text(good)
    door.looks(2)
    assert len(door.seen) == 1
    door.keeper.close()


async def test_a_list_that_is_being_written_revokes_nobody(door: Door) -> None:
    """Neither a look nor a stranger takes a part of it; the whole one counts when it stands still."""
    first, second = door.keys
    door.list.write_text(f"{second} 1\n")
    door.looks(1)
    assert not door.admits(STRANGER)
    assert not door.seen and door.admits(first)
    door.list.write_text(f"{second} 1\n{first} 0\n{STRANGER} 2\n")
    door.looks(1)
    assert not door.seen
    door.looks(1)
    assert [len(allowed) for allowed in door.seen] == [3]
    door.keeper.close()


@pytest.mark.parametrize("text", ["", "# nobody\n"])
async def test_a_list_without_keys_revokes_nobody_unless_it_is_said(door: Door, text: str) -> None:
    """One line says that the earlier list holds, and what to type; SIGHUP takes it."""
    good, keys = door.list.read_text(), door.keys
    door.list.write_text(text)
    door.looks(5)
    assert not door.admits(STRANGER)
    assert all(door.admits(key) for key in keys) and not door.seen
    said = [line for line in door.log.of("warning") if "lists nobody" in line]
    assert said == ["the allow-list lists nobody now, the earlier one holds: 2 keys"]
    door.keeper.read_again()
    assert [len(allowed) for allowed in door.seen] == [0] and not door.admits(keys[0])
    door.list.write_text(good)
    door.looks(2)
    assert door.admits(keys[0])
    door.keeper.close()


async def test_a_list_that_changes_while_it_is_read_is_not_taken(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read may be half of it."""
    read = AllowFile.read

    def slow(file: AllowFile) -> AllowList:
        found = read(file)
        door.list.write_text(door.list.read_text() + "# more\n")
        return found

    door.list.write_text(f"{door.keys[1]} 1\n")
    door.looks(1)
    monkeypatch.setattr(AllowFile, "read", slow)
    door.looks(1)
    assert not door.seen
    monkeypatch.undo()
    door.looks(2)
    assert [len(allowed) for allowed in door.seen] == [1]
    door.keeper.close()


async def test_a_new_list_is_read_at_once_on_a_signal(door: Door) -> None:
    """Without a second look; a list that cannot be read changes nothing, not even a FIFO."""
    first, second = door.keys
    door.list.write_text(f"{second} 1\n")
    door.keeper.read_again()
    assert not door.admits(first) and len(door.seen) == 1
    door.list.unlink()
    os.mkfifo(door.list, 0o600)
    door.keeper.read_again()
    assert "is no regular file" in door.log.of("error")[0]
    assert door.admits(second)


async def test_a_flood_of_strangers_makes_no_flood_of_reads(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list that changed is tried once."""
    door.list.write_text(f"{door.keys[1]} 1\n")
    reads: list[Path] = []
    read = AllowFile.read
    monkeypatch.setattr(AllowFile, "read", lambda file: reads.append(file.path) or read(file))  # type: ignore[func-returns-value]
    for _ in range(100):
        assert not door.admits(STRANGER)
    assert len(reads) == 1


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
