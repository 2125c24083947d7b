"""CIFAR-10 in its binary version, and the JPEG copy: the same layout of pixels."""

import io
import tarfile

import numpy as np
import pytest

from edge_fed.datasets.cifar import CifarBinary
from edge_fed.datasets.cifar_jpeg import FILE, CifarJpeg
from edge_fed.errors import MissingData

RNG = np.random.default_rng(0)
NAMES = [*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin"]


def smooth(n):
    """Images ``[n, 32, 32, 3]`` that survive JPEG: flat colours."""
    return np.broadcast_to(RNG.integers(40, 216, (n, 1, 1, 3), dtype=np.uint8), (n, 32, 32, 3)).copy()


IMAGES = {name: smooth(2) for name in NAMES}
LABELS = {name: RNG.integers(0, 10, 2, dtype=np.uint8) for name in NAMES}


def records(name):
    """A file as published: label, then red, green and blue planes."""
    planes = IMAGES[name].transpose(0, 3, 1, 2).reshape(2, -1)
    return np.concatenate([LABELS[name][:, None], planes], axis=1).tobytes()


def write(folder):
    """The six files."""
    folder.mkdir(exist_ok=True)
    for name in NAMES:
        (folder / name).write_bytes(records(name))
    return folder


def as_archive(folder):
    """The same in the archive as published."""
    with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for name in NAMES:
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(records(name))
            archive.addfile(member, io.BytesIO(records(name)))
    return folder


@pytest.mark.parametrize("place", ["folder", "below", "archive"])
def test_files_and_archive_are_read_alike(tmp_path, place):
    """All five training files in order, the test file apart; red first, row by row."""
    if place == "archive":
        as_archive(tmp_path)
    else:
        write(tmp_path if place == "folder" else tmp_path / "cifar-10-batches-bin")
    source = CifarBinary(tmp_path)
    assert source.labels("train").tolist() == np.concatenate([LABELS[n] for n in NAMES[:5]]).tolist()
    assert source.labels("test").tolist() == LABELS[NAMES[5]].tolist()
    found = source.rows("train", np.array([3]))
    assert np.array_equal(found[0, :1024], IMAGES["data_batch_2.bin"][1, :, :, 0].ravel())
    assert np.array_equal(found[0, 2048:], IMAGES["data_batch_2.bin"][1, :, :, 2].ravel())


def test_missing_and_damaged_files_are_named(tmp_path):
    """Before anything runs if they are not there; when they are read if they are cut."""
    with pytest.raises(MissingData, match=r"neither cifar-10-binary.tar.gz nor its files test_batch.bin"):
        CifarBinary(tmp_path)
    (write(tmp_path) / "test_batch.bin").write_bytes(b"\0" * 3072)
    with pytest.raises(MissingData, match=r"test_batch\.bin of 3072 bytes is no records of 3073"):
        CifarBinary(tmp_path).labels("test")
    (tmp_path / "test_batch.bin").unlink()
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(b"no archive")
    with pytest.raises(MissingData, match=r"tar.gz cannot be read"):
        CifarBinary(tmp_path).labels("test")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({1: lambda d: d[:-5], 3: lambda d: d + b"\0" * 5}, r"data_batch_2\.bin of 6141 bytes"),
        ({4: lambda _: b""}, r"data_batch_5\.bin of 0 bytes"),
        ({0: lambda d: b"\x0a" + d[1:]}, r"data_batch_1\.bin has a label 10"),
    ],
)
def test_each_file_is_checked_by_itself(tmp_path, changed, message):
    """A cut file and a longer one, an empty one, and a label that is none: refused by the file's name."""
    write(tmp_path)
    for k, change in changed.items():
        (tmp_path / NAMES[k]).write_bytes(change(records(NAMES[k])))
    with pytest.raises(MissingData, match=message):
        CifarBinary(tmp_path).labels("train")


def npz(folder):
    """The JPEG copy of the same images."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed: the JPEG copy is not tested")
    arrays = {}
    for part, names in (("train", NAMES[:5]), ("test", NAMES[5:])):
        files = []
        for pixels in np.concatenate([IMAGES[name] for name in names]):
            buffer = io.BytesIO()
            image.fromarray(pixels).save(buffer, "JPEG", quality=75)
            files.append(buffer.getvalue())
        arrays[f"{part}_jpeg"] = np.frombuffer(b"".join(files), np.uint8)
        arrays[f"{part}_offsets"] = np.cumsum([0, *map(len, files)])
        arrays[f"{part}_labels"] = np.concatenate([LABELS[name] for name in names])
    np.savez(folder / FILE, **arrays)
    return folder


def test_the_jpeg_copy_is_labelled_and_has_the_same_layout(tmp_path):
    """Its pixels are those of the binary version, up to what JPEG loses; its name says what it is."""
    copy, original = CifarJpeg(npz(tmp_path)), CifarBinary(write(tmp_path))
    assert copy.label == "CIFAR-10, JPEG q75 copy"
    assert copy.labels("train").tolist() == original.labels("train").tolist()
    wanted = np.array([7, 0, 4])
    differences = copy.rows("train", wanted).astype(int) - original.rows("train", wanted)
    assert np.abs(differences).max() <= 4


def test_only_what_is_asked_for_is_decoded(tmp_path, monkeypatch):
    """A user's images, not the whole set."""
    source, decoded = CifarJpeg(npz(tmp_path)), []
    monkeypatch.setattr(
        "edge_fed.datasets.cifar_jpeg._decoded",
        lambda data: decoded.append(data) or np.zeros((32, 32, 3), np.uint8),
    )
    source.rows("train", np.array([1, 2]))
    assert len(decoded) == 2


def test_a_copy_that_is_none_is_named(tmp_path):
    """A damaged file, and one without the arrays."""
    npz(tmp_path)
    (tmp_path / FILE).write_bytes(b"no npz")
    with pytest.raises(MissingData, match="cannot be read"):
        CifarJpeg(tmp_path).labels("train")
    np.savez(tmp_path / FILE, other=np.zeros(1))
    with pytest.raises(MissingData, match="cannot be read"):
        CifarJpeg(tmp_path).labels("train")
