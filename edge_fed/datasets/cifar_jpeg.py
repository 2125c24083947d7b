"""A lossy copy of CIFAR-10: an npz of JPEG files of quality 75. What is computed on it is not "CIFAR-10".

``{train,test}_jpeg`` are all files one after the other, ``{train,test}_offsets`` ``[n+1]`` where each begins,
``{train,test}_labels`` ``[n]``; sorted by class. Only the images that are asked for are decoded: a user has
170 or 340 of 50,000, so no decoded copy is kept anywhere. Needs Pillow (extra ``images``).
"""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_fed.datasets.base import U1, Indices, Kept, Part
from edge_fed.datasets.folder import find
from edge_fed.errors import MissingData

FILE = "cifar10_jpeg_q75.npz"
SHAPE = (32, 32, 3)


class CifarJpeg:
    """The copy.

    Args:
        folder: Of the file.

    Raises:
        MissingData: It is not there, or Pillow is not installed.
    """

    label = "CIFAR-10, JPEG q75 copy"

    def __init__(self, folder: Path) -> None:
        self._path = find(folder, (FILE,))
        self._kept = Kept()
        _pillow()

    def labels(self, part: Part) -> U1:
        """All labels of a part, ``[n]``."""
        return self._array(f"{part}_labels")

    def rows(self, part: Part, indices: Indices) -> U1:
        """Pixels, red then green then blue, ``[k, 3072]``, as in the binary version."""
        data, offsets = self._array(f"{part}_jpeg"), self._array(f"{part}_offsets")
        found = np.empty((len(indices), *SHAPE), np.uint8)
        for row, index in enumerate(indices):
            found[row] = _decoded(data[offsets[index] : offsets[index + 1]].tobytes())
        return np.ascontiguousarray(found.transpose(0, 3, 1, 2)).reshape(len(indices), -1)

    def _array(self, name: str) -> NDArray[Any]:
        return self._kept(name, lambda: self._read(name))

    def _read(self, name: str) -> NDArray[Any]:
        try:
            with np.load(self._path, allow_pickle=False) as file:
                found: NDArray[Any] = file[name]
        except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise MissingData(f"{self._path} cannot be read: {error}") from None
        return found


def _decoded(jpeg: bytes) -> U1:
    with _pillow().open(io.BytesIO(jpeg)) as image:
        pixels = np.asarray(image.convert("RGB"))
    if pixels.shape != SHAPE:
        raise MissingData(f"an image of the copy has shape {pixels.shape}, expected {SHAPE}")
    return pixels


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise MissingData("JPEG images need Pillow: pip install 'edge-fed[images]'") from None
    return Image
