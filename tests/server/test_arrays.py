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


@pytest.mark.parametrize("dimension", [1, 360, 4097])
def test_files_of_two_vectors_equal_those_of_numpy(dimension: int) -> None:
    """Each vector has its own place and checksum, equal or not; one too few or too many is an error."""
    archive = Archive(dimension, ("params", "control"))
    rng = np.random.default_rng(dimension)
    first, second = rng.normal(size=(2, dimension))
    for params, control in ((first, second), (second, first), (first, first), (first, np.zeros(dimension))):
        ours = bytes(archive.pack(params, control))
        buffer = io.BytesIO()
        np.savez(buffer, params=params, control=control)
        assert ours == buffer.getvalue()
        assert zipfile.ZipFile(io.BytesIO(ours)).testzip() is None
    for wrong in ((first,), (first, first, first)):
        with pytest.raises(ValueError, match="argument"):
            archive.pack(*wrong)
