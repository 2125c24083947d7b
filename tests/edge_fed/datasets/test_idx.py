"""IDX files: read plain or compressed, refused by name if they are not what they should be."""

import gc
import gzip
import struct
import weakref

import numpy as np
import pytest

from edge_fed.datasets.idx import Idx
from edge_fed.errors import MissingData

RNG = np.random.default_rng(0)
PIXELS = {part: RNG.integers(0, 256, (n, 28, 28), dtype=np.uint8) for part, n in (("train", 6), ("test", 3))}
LABELS = {"train": np.array([3, 1, 4, 1, 5, 9], np.uint8), "test": np.array([2, 6, 5], np.uint8)}
STEMS = {"train": "train", "test": "t10k"}


def idx(array):
    """An array as a file of this format."""
    head = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.tobytes()


def write(folder, *, compress=False, change=None):
    """The four files; ``change`` is given (name, bytes) and may return others."""
    for part, stem in STEMS.items():
        for kind, array in (("images-idx3", PIXELS[part]), ("labels-idx1", LABELS[part])):
            name, data = f"{stem}-{kind}-ubyte", idx(array)
            data = change(name, data) if change else data
            (folder / (name + ".gz" * compress)).write_bytes(gzip.compress(data) if compress else data)
    return folder


@pytest.mark.parametrize("compress", [False, True])
def test_plain_and_compressed_files_are_the_same(tmp_path, compress):
    """Pixels row by row, labels in order, only the rows that are asked for."""
    source = Idx(write(tmp_path, compress=compress), only_mnist=False)
    for part in ("train", "test"):
        assert source.labels(part).tolist() == LABELS[part].tolist()
        found = source.rows(part, np.array([2, 0]))
        assert found.dtype == np.uint8
        assert np.array_equal(found, PIXELS[part][[2, 0]].reshape(2, 784))
        assert found.flags.c_contiguous


def test_what_was_read_is_read_once_and_goes_with_its_source(tmp_path):
    """An agent that has its own images keeps no file of 47 MB."""
    source = Idx(write(tmp_path), only_mnist=False)
    assert source._raw("train-labels") is source._raw("train-labels")
    gone = weakref.ref(source)
    del source
    gc.collect()
    assert gone() is None


def test_other_images_never_pass_for_mnist(tmp_path):
    """By its name a set is checked by hash; as any IDX set it is labelled with the hash that it has."""
    folder = write(tmp_path)
    with pytest.raises(
        MissingData, match=r"train-labels-idx1-ubyte is not the file of MNIST; .* family 'idx'"
    ):
        Idx(folder, only_mnist=True).labels("train")
    assert Idx(folder, only_mnist=False).label.endswith("(not MNIST)")


def test_a_missing_file_is_named_at_once(tmp_path):
    """When the source is opened, not when it is first read."""
    (write(tmp_path) / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(MissingData, match=r"t10k-labels-idx1-ubyte or t10k-labels-idx1-ubyte\.gz"):
        Idx(tmp_path, only_mnist=False)


def cut(name, data):
    """Loses its last byte."""
    return data[:-1] if name.startswith("train-images") else data


def floats(name, data):
    """Says that it holds floats."""
    return bytes((0, 0, 13)) + data[3:]


@pytest.mark.parametrize(("change", "message"), [(cut, "is cut off"), (floats, "is no IDX file of 1 dim")])
def test_damaged_files_are_named(tmp_path, change, message):
    """A cut file, and one of another type."""
    source = Idx(write(tmp_path, change=change), only_mnist=False)
    with pytest.raises(MissingData, match=message):
        (source.labels("train"), source.rows("train", np.array([0])))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (LABELS["train"][:5], r"train-labels-idx1-ubyte holds 5 labels for the 6 images"),
        (np.append(LABELS["train"], LABELS["train"]), r"train-labels-idx1-ubyte holds 12 labels for the 6"),
        (LABELS["train"] + np.uint8(1), r"train-labels-idx1-ubyte has a label 10, expected 0 to 9"),
    ],
)
def test_labels_belong_to_images_and_are_classes(tmp_path, labels, message):
    """Fewer, more, and one that no output stands for: refused by name before anything is drawn from them."""
    (write(tmp_path) / "train-labels-idx1-ubyte").write_bytes(idx(labels))
    with pytest.raises(MissingData, match=message):
        Idx(tmp_path, only_mnist=False).labels("train")


def test_a_damaged_archive_is_named(tmp_path):
    """A .gz that is none."""
    (write(tmp_path, compress=True) / "train-labels-idx1-ubyte.gz").write_bytes(b"no gzip")
    with pytest.raises(MissingData, match=r"train-labels-idx1-ubyte.gz cannot be read"):
        Idx(tmp_path, only_mnist=False).labels("train")


def test_images_of_another_size_are_refused(tmp_path):
    """The network of these families has 784 inputs."""
    write(tmp_path)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(PIXELS["train"][:, :14]))
    with pytest.raises(MissingData, match="images of 392 pixels"):
        Idx(tmp_path, only_mnist=False).rows("train", np.array([0]))
