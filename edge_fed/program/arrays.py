"""Reading ``.npz`` files that a crash, a full disk or a bad sector may have damaged.

NumPy's own reader believes what a file says of itself: a few bytes can make it fill the memory. This one
takes uncompressed float64 arrays whose bytes are all there, as `numpy.savez` writes them, and nothing else.
"""

import io
import math
import zipfile
from pathlib import Path

import numpy as np

from edge_fed.params import F8
from edge_fed.program.files import open_regular

COUNT_AT = -12  # offset from the end: number of entries, PKZIP APPNOTE 4.3.16


def read_arrays(path: Path) -> dict[str, F8]:
    """All arrays of a ``.npz`` file by name, read-only; each one's bytes have the archive's CRC-32.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is no whole archive of float64 arrays.
    """
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            stated = sum(info.compress_size for info in archive.infolist())
            if stated > file.seek(0, io.SEEK_END):  # room is made for them before they are read
                raise ValueError(f"{stated} bytes are stated, which are not there")
            found = {i.filename.removesuffix(".npy"): _array(archive, i) for i in archive.infolist()}
            file.seek(COUNT_AT, io.SEEK_END)
            if len(found) != int.from_bytes(file.read(2), "little"):
                raise ValueError("entries are missing")  # a damaged entry may swallow the next one unseen
            return found
    except (OSError, MemoryError):
        raise
    except Exception as error:  # zipfile and NumPy raise all kinds: struct.error, NotImplementedError, ...
        raise ValueError(f"{path.name} is no whole archive of arrays: {error!r}") from error


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> F8:
    if info.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{info.filename} is compressed")
    data = archive.read(info)
    head = io.BytesIO(data)
    if np.lib.format.read_magic(head) != (1, 0):
        raise ValueError(f"{info.filename} has another format")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(head)
    if dtype != np.dtype("<f8") or math.prod(shape) * dtype.itemsize != len(data) - head.tell():
        raise ValueError(f"{info.filename} is no float64 array of {len(data)} bytes")
    array: F8 = np.frombuffer(data, dtype, offset=head.tell())
    return array.reshape(shape, order="F" if fortran else "C")
