"""Vectors as a ``.npz`` file, without building the archive anew each round.

A stored (uncompressed) archive of vectors of known length differs from round to round in their data and in
two copies of each one's CRC-32. So NumPy writes it once, and later files are that template with these
replaced: 5 us instead of 30 us for one vector at d = 360. A test reads the files with NumPy and ``zipfile``.
"""

import io
import zipfile
import zlib
from typing import NamedTuple

import numpy as np

from edge_fed.params import F8, little_endian

LOCAL_CRC = 14  # offset of the CRC-32 in a local file header, PKZIP APPNOTE 4.3.7
CENTRAL_CRC = 16  # and in a central directory header, 4.3.12
CENTRAL_MAGIC = b"PK\x01\x02"


class Place(NamedTuple):
    """Where one vector stands in the template.

    Attributes:
        data: Offset of its first byte.
        end: Offset behind its last byte.
        crcs: Offsets of both copies of its CRC-32.
        head_crc: CRC-32 of the NumPy header in front of it.
    """

    data: int
    end: int
    crcs: tuple[int, int]
    head_crc: int


class Archive:
    """Makes ``.npz`` files of vectors of one length.

    Args:
        dimension: Of each vector.
        names: Of the vectors, in order.
    """

    def __init__(self, dimension: int, names: tuple[str, ...] = ("params",)) -> None:
        mark = np.full(dimension, np.frombuffer(b"edge_fed", dtype="<f8")[0])
        buffer = io.BytesIO()
        np.savez(buffer, **dict.fromkeys(names, mark))  # type: ignore[arg-type]  # its own options' types
        self._bytes = bytearray(buffer.getbuffer())
        self._places: list[Place] = []
        central = 0
        for info in zipfile.ZipFile(buffer).infolist():
            magic = self._bytes.index(b"\x93NUMPY", info.header_offset)
            data = self._bytes.index(mark.tobytes(), magic)
            central = self._bytes.index(CENTRAL_MAGIC, central + 1)
            crcs = (info.header_offset + LOCAL_CRC, central + CENTRAL_CRC)
            head_crc = zlib.crc32(self._bytes[magic:data])
            self._places.append(Place(data, data + mark.nbytes, crcs, head_crc))

    def pack(self, *vectors: F8) -> memoryview:
        """The file's bytes for these vectors ``[d]``, one per name; valid until the next call."""
        for place, vector in zip(self._places, vectors, strict=True):
            data = little_endian(vector).view(np.uint8).data
            crc = zlib.crc32(data, place.head_crc).to_bytes(4, "little")
            self._bytes[place.data : place.end] = data
            for at in place.crcs:
                self._bytes[at : at + 4] = crc
        return memoryview(self._bytes).toreadonly()
