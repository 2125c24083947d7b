"""Damaged checkpoints: every changed byte, cut or mixed-up file is found; what is used instead is right."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_fed.program.exit_codes import ProgramError
from edge_fed.program.run_folder import RunFolder
from server.checkpoint import UNREADABLE, Sidecar, load_arrays, load_params, load_sidecar, seal, unseal
from tests.server.small_runs import ROUNDS, Kind, before, begin, go_on, reopen

KIND = Kind(control=True)
FILES = tuple(f"round-{round_:06d}.{end}" for round_ in range(ROUNDS + 1) for end in ("npz", "json"))


@cache
def run_files() -> dict[str, bytes]:
    """Every file of an undisturbed run, by its path in the folder."""
    with TemporaryDirectory() as scratch:
        folder = begin(Path(scratch) / "run", KIND)
        go_on(folder, KIND, before(folder, KIND).ledger)
        found = (path for path in folder.path.rglob("*") if path.is_file())
        return {str(path.relative_to(folder.path)): path.read_bytes() for path in found}


def checkpoint(name: str) -> bytes:
    """The content of one of `FILES`."""
    return run_files()[f"checkpoints/{name}"]


def materialise(path: Path, changed: dict[str, bytes]) -> RunFolder:
    """The run with other contents in some of `FILES`."""
    for name, content in (run_files() | {f"checkpoints/{name}": c for name, c in changed.items()}).items():
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_bytes(content)
    return reopen(path)


@cache
def states() -> dict[int, tuple[list[float], list[float], object]]:
    """What the server knew after each round."""
    found = {}
    with TemporaryDirectory() as scratch:
        folder = materialise(Path(scratch), {})
        for round_ in range(ROUNDS + 1):
            sidecar = load_sidecar(folder, round_)
            arrays = load_arrays(folder, sidecar)
            found[round_] = (arrays["params"].tolist(), arrays["control"].tolist(), sidecar.book)
    return found


def state_of(folder: RunFolder) -> tuple[int, tuple[list[float], list[float], object]]:
    """Where the run stands, and what the server knows there."""
    ledger = before(folder, KIND).ledger
    assert ledger.control is not None
    return ledger.committed, (ledger.params.tolist(), ledger.control.value.tolist(), ledger.book())


def state_in(folder: RunFolder, sidecar: Sidecar) -> tuple[list[float], list[float], object]:
    """The same, of one checkpoint."""
    arrays = load_arrays(folder, sidecar)
    return arrays["params"].tolist(), arrays["control"].tolist(), sidecar.book


@pytest.mark.parametrize("name", FILES[-2:])
def test_every_changed_byte_is_found_or_harmless(tmp_path: Path, name: str) -> None:
    """[complaints 20] One bit of it or all, byte by byte: the checkpoint is refused, or says what it said.

    Harmless are time stamps and the like in the archive. Of a sidecar nothing is: it has its own hash.
    """
    folder, data = materialise(tmp_path, {}), checkpoint(name)
    path, harmless = folder.checkpoints / name, set()
    for place in range(len(data)):
        for mask in (1 << place % 8, 255):
            path.write_bytes(data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :])
            try:
                found = state_in(folder, load_sidecar(folder, ROUNDS))
            except UNREADABLE:
                continue
            assert found == states()[ROUNDS], f"byte {place} ^ {mask}"
            harmless.add(place)
    assert len(harmless) < len(data) / 2
    if path.suffix == ".json":
        assert not harmless


@pytest.mark.parametrize("name", FILES[-2:])
def test_a_file_that_ends_anywhere_is_no_checkpoint(tmp_path: Path, name: str) -> None:
    """Cut at every place, or with something behind its end: refused, or what it was."""
    folder, data = materialise(tmp_path, {}), checkpoint(name)
    path = folder.checkpoints / name
    for end in range(len(data)):
        path.write_bytes(data[:end])
        with pytest.raises(UNREADABLE):
            state_in(folder, load_sidecar(folder, ROUNDS))
    for tail in (b"\0", b"\0" * 4096, data):
        path.write_bytes(data + tail)
        try:
            assert state_in(folder, load_sidecar(folder, ROUNDS)) == states()[ROUNDS]
        except UNREADABLE:
            continue


def damages(data: bytes) -> st.SearchStrategy[bytes]:
    """A file after something happened to it."""
    place = st.integers(0, len(data) - 1)
    spot = st.tuples(place, st.binary(min_size=1, max_size=64))
    return st.one_of(
        place.map(lambda end: data[:end]),
        spot.map(lambda at: data[: at[0]] + at[1] + data[at[0] + len(at[1]) :]),
        place.map(lambda begin: data[:begin] + bytes(len(data) - begin)),  # pages that were never written
        st.sampled_from([checkpoint(name) for name in FILES]),  # an old file under a new name, or another one
        st.binary(max_size=64),
    )


@given(st.data())
def test_the_newest_intact_checkpoint_is_used_whatever_happened_to_the_others(data: st.DataObject) -> None:
    """[complaints 20] Several damaged or mixed up at once: exactly the state of a round, and none skipped."""
    names = data.draw(st.lists(st.sampled_from(FILES[2:]), min_size=1, max_size=6, unique=True))
    changed = {name: data.draw(damages(checkpoint(name))) for name in names}
    touched = {int(name[6:12]) for name, content in changed.items() if content != checkpoint(name)}
    with TemporaryDirectory() as scratch:
        folder = materialise(Path(scratch), changed)
        committed, state = state_of(folder)
        assert state == states()[committed]
        assert committed >= max(set(range(ROUNDS + 1)) - touched), "an intact one is never passed over"
        assert state_of(folder) == (committed, state), "looking twice changes nothing"
        assert [row["round"] for row in folder.rows(folder.metrics)] == [*range(1, committed + 1)]


def test_if_all_are_damaged_the_error_says_so(tmp_path: Path) -> None:
    """It names a file, what is wrong with it, and what to do next; nothing starts from the beginning."""
    folder = materialise(tmp_path, {name: checkpoint(name)[:-1] for name in FILES if name.endswith("npz")})
    with pytest.raises(ProgramError, match=r"no checkpoint in .* is intact: round-000004") as caught:
        before(folder, KIND)
    assert "restore" in caught.value.hint
    assert load_sidecar(folder, ROUNDS).round == ROUNDS, "nothing was removed"


def test_a_sidecar_without_its_hash_is_not_believed(tmp_path: Path) -> None:
    """Or else a damaged name of that key would hide the damage; the round before is used."""
    name = FILES[-1]
    bare = unseal(checkpoint(name))
    assert seal(bare) == checkpoint(name) != bare
    assert msgspec.json.decode(checkpoint(name))["round"] == ROUNDS, "still one JSON object"
    assert state_of(materialise(tmp_path, {name: bare}))[0] == ROUNDS - 1


def test_an_array_of_another_shape_is_refused(tmp_path: Path) -> None:
    """The same bytes as a matrix have the same hash."""
    folder = materialise(tmp_path, {})
    arrays = load_arrays(folder, load_sidecar(folder, ROUNDS))
    wrong = {name: array.reshape(2, 2) for name, array in arrays.items()}
    np.savez(folder.checkpoint(ROUNDS)[0], **wrong)  # type: ignore[arg-type]  # its own options' types
    with pytest.raises(ValueError, match="does not have the hash"):
        load_params(folder, ROUNDS)
