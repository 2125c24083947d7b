"""Reading arrays that anything may have happened to."""

import io
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from edge_fed.program.arrays import read_arrays

LYING = Path(__file__).parents[2] / "fuzz/findings/state/size-that-the-file-does-not-have"


def test_what_numpy_saved_is_read_to_the_bit_and_cannot_be_written(tmp_path):
    """Vectors, matrices in both orders, a number, nothing."""
    arrays = {
        "a": np.linspace(0, 1, 7) / 3,
        "b": np.arange(6.0).reshape(2, 3),
        "c": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "d": np.array(2.5),
        "e": np.empty(0),
    }
    np.savez(tmp_path / "file.npz", **arrays)
    found = read_arrays(tmp_path / "file.npz")
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].shape == array.shape and np.array_equal(found[name], array)
        assert not found[name].flags.writeable


@pytest.mark.parametrize(
    "array",
    [np.arange(3), np.array(["text"]), np.zeros(3, ">f8"), np.zeros(3, "f4"), np.array([None])],
    ids=lambda array: str(array.dtype),
)
def test_other_types_are_refused(tmp_path, array):
    """Objects above all: they would be pickles."""
    np.savez(tmp_path / "file.npz", good=np.zeros(2), bad=array)
    with pytest.raises(ValueError, match=r"file\.npz is no whole archive of arrays"):
        read_arrays(tmp_path / "file.npz")


def test_a_compressed_archive_is_refused(tmp_path):
    """A few kilobytes could fill the memory."""
    np.savez_compressed(tmp_path / "file.npz", zeros=np.zeros(1_000_000))
    with pytest.raises(ValueError, match="is compressed"):
        read_arrays(tmp_path / "file.npz")


def test_a_size_that_lies_takes_no_memory(tmp_path):
    """264 bytes that state two gigabytes (found by fuzzing): zipfile makes room for one before it reads."""
    (tmp_path / "file.npz").write_bytes(LYING.read_bytes())
    tracemalloc.start()
    with pytest.raises(ValueError, match="bytes are stated, which are not there"):
        read_arrays(tmp_path / "file.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_a_shape_that_lies_takes_no_memory(tmp_path):
    """The header may not promise more than the file holds; NumPy would reserve it first."""
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(100))
    lie = buffer.getvalue().replace(b"(100,), }        ", b"(10000000000,), }")
    with zipfile.ZipFile(tmp_path / "file.npz", "w") as archive:
        archive.writestr("zeros.npy", lie)
    assert lie != buffer.getvalue()
    with pytest.raises(ValueError, match="is no float64 array of"):
        read_arrays(tmp_path / "file.npz")


def test_an_entry_that_a_damaged_one_swallows_is_missed(tmp_path):
    """The library reads on behind the comment of an entry, whose length is one flipped bit away."""
    np.savez(tmp_path / "file.npz", a=np.zeros(2), b=np.zeros(2))
    data = bytearray((tmp_path / "file.npz").read_bytes())
    data[data.index(b"PK\x01\x02") + 32] += 46 + len("b.npy")
    (tmp_path / "file.npz").write_bytes(data)
    with np.load(tmp_path / "file.npz") as file:
        assert file.files == ["a"], "NumPy does not notice"
    with pytest.raises(ValueError, match="entries are missing"):
        read_arrays(tmp_path / "file.npz")


def test_a_missing_file_is_the_systems_error(tmp_path):
    """Not damage."""
    with pytest.raises(FileNotFoundError):
        read_arrays(tmp_path / "file.npz")
