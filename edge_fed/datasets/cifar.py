"""CIFAR-10, the "binary version": data_batch_1.bin to data_batch_5.bin and test_batch.bin.

A record is 3,073 bytes: the label, then 1,024 red, green and blue values, row by row. The files lie in the
folder, in ``cifar-10-batches-bin`` below it, or in the archive ``cifar-10-binary.tar.gz``.
"""

import tarfile
from pathlib import Path

import numpy as np

from edge_fed.datasets.base import U1, Indices, Kept, Part
from edge_fed.errors import MissingData

RECORD = 3073
CLASSES = 10
BATCHES = {"train": tuple(f"data_batch_{k}.bin" for k in range(1, 6)), "test": ("test_batch.bin",)}
INNER, ARCHIVE = "cifar-10-batches-bin", "cifar-10-binary.tar.gz"


class CifarBinary:
    """The official files.

    Args:
        folder: Where they are.

    Raises:
        MissingData: They are not there.
    """

    label = "CIFAR-10"

    def __init__(self, folder: Path) -> None:
        self._folder = folder / INNER if (folder / INNER).is_dir() else folder
        self._archive = folder / ARCHIVE
        plain = all((self._folder / name).is_file() for part in BATCHES.values() for name in part)
        if not plain and not self._archive.is_file():
            raise MissingData(f"{folder} holds neither {ARCHIVE} nor its files {BATCHES['test'][0]}, ...")
        self._plain = plain
        self._kept = Kept()

    def labels(self, part: Part) -> U1:
        """All labels of a part, ``[n]``."""
        return np.ascontiguousarray(self._records(part)[:, 0])

    def rows(self, part: Part, indices: Indices) -> U1:
        """Pixels, red then green then blue, ``[k, 3072]``."""
        return np.ascontiguousarray(self._records(part)[indices, 1:])

    def _records(self, part: Part) -> U1:
        return self._kept(part, lambda: self._read(part))

    def _read(self, part: Part) -> U1:
        batches = self._batches(part)
        place = self._folder if self._plain else self._archive
        for name, data in zip(BATCHES[part], batches, strict=True):
            # Each by itself: a cut file and a longer one together would pass, every label behind them wrong.
            if not data or len(data) % RECORD:
                raise MissingData(f"{place}: {name} of {len(data)} bytes is no records of {RECORD} bytes")
            if max(data[::RECORD]) >= CLASSES:
                raise MissingData(f"{place}: {name} has a label {max(data[::RECORD])}, expected 0 to 9")
        return np.frombuffer(b"".join(batches), np.uint8).reshape(-1, RECORD)

    def _batches(self, part: Part) -> list[bytes]:
        if self._plain:
            return [(self._folder / name).read_bytes() for name in BATCHES[part]]
        try:
            with tarfile.open(self._archive) as archive:
                members = {Path(member.name).name: member for member in archive if member.isfile()}
                return [_content(archive, members[name]) for name in BATCHES[part]]
        except (tarfile.TarError, EOFError, KeyError, OSError) as error:
            raise MissingData(f"{self._archive} cannot be read: {error}") from None


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None  # a regular file
    with file:
        return file.read()
