"""Reading earlier checkpoints for the server: whole, missing, and damaged ones."""

import asyncio
from pathlib import Path

import pytest

from edge_fed.params import F8
from edge_fed.program.run_folder import RunFolder
from server.disk import Disk
from tests.server.small_runs import ROUNDS, Kind, before, begin, go_on


async def loaded(folder: RunFolder, round_: int) -> tuple[F8 | None, str]:
    """What the disk says of a round."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[tuple[F8 | None, str]] = loop.create_future()
    disk = Disk(folder, lambda: None, loop.call_soon_threadsafe)  # type: ignore[arg-type]
    disk.load(round_, lambda params, damage: answer.set_result((params, damage)))
    try:
        return await asyncio.wait_for(answer, 30)
    finally:
        disk.close()


@pytest.mark.parametrize("which", [0, 1])
async def test_a_damaged_checkpoint_is_told_from_a_missing_one(tmp_path: Path, which: int) -> None:
    """One changed byte in the array file or in its sidecar is damage; no sidecar: it is not kept."""
    folder = begin(tmp_path / "run", Kind())
    go_on(folder, Kind(), before(folder, Kind()).ledger)
    params, damage = await loaded(folder, ROUNDS)
    assert params is not None and not damage
    path = folder.checkpoint(ROUNDS)[which]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    params, damage = await loaded(folder, ROUNDS)
    assert params is None and damage
    folder.checkpoint(ROUNDS)[1].unlink()
    assert await loaded(folder, ROUNDS) == (None, "")
