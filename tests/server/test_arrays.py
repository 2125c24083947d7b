"""The archive template: its files are NumPy's own, byte for byte."""

import io
import zipfile

import numpy as np
import pytest

from server.arrays import Archive


@pytest.mark.parametrize("dimension", [1, 2, 100, 360, 4097])
def test_files_equal_those_of_numpy(dimension: int) -> None:
    """Also the second one of a template, and for values that look like anything."""
    archive = Archive(dimension)
    rng = np.random.default_rng(dimension)
    for params in (rng.normal(size=dimension), np.full(dimension, np.nan), np.zeros(dimension)):
        ours = bytes(archive.pack(params))
        buffer = io.BytesIO()
        np.savez(buffer, params=params)
        assert ours == buffer.getvalue()
        assert zipfile.ZipFile(io.BytesIO(ours)).testzip() is None
