"""IDX files: the four of MNIST, or of a set in its format; ``.gz`` or not.

A file is a big-endian head (0, 0, 8 for uint8, number of dimensions, then each size as uint32) and the bytes.
MNIST is recognised by SHA-256 of the uncompressed files, and under its name nothing else is taken.
"""

import gzip
import hashlib
import math
import zlib
from pathlib import Path

import numpy as np

from edge_fed.datasets.base import U1, Indices, Kept, Part
from edge_fed.datasets.folder import find
from edge_fed.errors import MissingData

FILES = {"train": "train", "test": "t10k"}
MNIST = {
    "train-images": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
PIXELS = 784
CLASSES = 10


class Idx:
    """Four files in one folder.

    Args:
        folder: Of the files.
        only_mnist: Whether any other content is refused.

    Raises:
        MissingData: A file is not there.
    """

    def __init__(self, folder: Path, *, only_mnist: bool) -> None:
        self._only_mnist = only_mnist
        self._kept = Kept()
        self._paths = {
            f"{stem}-{kind}": find(folder, _names(stem, kind))
            for stem in FILES.values()
            for kind in ("images", "labels")
        }

    @property
    def label(self) -> str:
        """MNIST, or what the files' hash is."""
        if self._only_mnist:
            return "MNIST"
        digest = hashlib.sha256(self._raw("train-images")).hexdigest()
        return "MNIST" if digest == MNIST["train-images"] else f"IDX files {digest[:12]} (not MNIST)"

    def labels(self, part: Part) -> U1:
        """All labels of a part, ``[n]``; one per image.

        Raises:
            MissingData: A file is damaged, there are more or fewer labels than images, or one is no class.
        """
        path = self._paths[f"{FILES[part]}-labels"]
        labels = _array(self._raw(f"{FILES[part]}-labels"), 1, path)
        images = len(self._images(part))
        if len(labels) != images:
            raise MissingData(f"{path} holds {len(labels)} labels for the {images} images beside it")
        if labels.max(initial=0) >= CLASSES:
            raise MissingData(f"{path} has a label {labels.max()}, expected 0 to {CLASSES - 1}")
        return labels

    def rows(self, part: Part, indices: Indices) -> U1:
        """Pixels, ``[k, 784]``."""
        images = self._images(part)
        return np.ascontiguousarray(images[indices])

    def _images(self, part: Part) -> U1:
        path = self._paths[f"{FILES[part]}-images"]
        images = _array(self._raw(f"{FILES[part]}-images"), 3, path)
        flat = images.reshape(len(images), -1)
        if flat.shape[1] != PIXELS:
            raise MissingData(f"{path} holds images of {flat.shape[1]} pixels, expected 28 x 28")
        return flat

    def _raw(self, name: str) -> bytes:
        return self._kept(name, lambda: self._read(name))

    def _read(self, name: str) -> bytes:
        path = self._paths[name]
        try:
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        except (OSError, EOFError, zlib.error) as error:
            raise MissingData(f"{path} cannot be read: {error}") from None
        if self._only_mnist and hashlib.sha256(data).hexdigest() != MNIST[name]:
            raise MissingData(f"{path} is not the file of MNIST; another set of IDX files is family 'idx'")
        return data


def _names(stem: str, kind: str) -> tuple[str, ...]:
    name = f"{stem}-{kind}-idx{3 if kind == 'images' else 1}-ubyte"
    return name, f"{name}.gz"


def _array(data: bytes, dimensions: int, path: Path) -> U1:
    head = 4 + 4 * dimensions
    if len(data) < head or data[:4] != bytes((0, 0, 8, dimensions)):
        raise MissingData(f"{path} is no IDX file of {dimensions} dimensions of bytes")
    shape = [int(size) for size in np.frombuffer(data, ">u4", dimensions, 4)]
    if len(data) != head + math.prod(shape):
        raise MissingData(
            f"{path} is cut off: {len(data)} bytes, its head promises {head + math.prod(shape)}"
        )
    return np.frombuffer(data, np.uint8, offset=head).reshape(shape)
