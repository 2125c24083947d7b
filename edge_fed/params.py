"""The flat parameter vector: float64, shape ``[d]``, everywhere between policy and wire."""

import hashlib
import zlib
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

F8 = NDArray[np.float64]
I8 = NDArray[np.int64]
B1 = NDArray[np.bool_]


def little_endian(vector: F8) -> F8:
    """Returns the vector as contiguous little-endian float64 (no copy where it already is)."""
    return np.ascontiguousarray(vector, dtype="<f8")


def params_sha256(params: F8) -> str:
    """Lower-hex SHA-256 of the little-endian float64 bytes: the identity of a round's result."""
    return hashlib.sha256(little_endian(params).data).hexdigest()


def crc32(*vectors: F8) -> int:
    """CRC-32 of all little-endian float64 bytes in order: names a version or an update, proves no secret."""
    found = 0
    for vector in vectors:
        found = zlib.crc32(little_endian(vector).data, found)
    return found


def schema_sha256(dimension: int, policy: str) -> str:
    """Identity of the parameter layout: two programs that differ in it must not average.

    Args:
        dimension: Number of parameters d.
        policy: The policy's canonical description, e.g. ``mlp 2-32-8 tanh softmax``.
    """
    return hashlib.sha256(f"float64[{dimension}] {policy}".encode()).hexdigest()


def first_difference(expected: str, found: str) -> str:
    """Where two descriptions of a layout part, in words; empty: nowhere.

    Args:
        expected: The run's: parts behind ``; ``, such as one per parameter.
        found: This program's.
    """
    for theirs, ours in zip_longest(expected.split("; "), found.split("; ")):
        if theirs != ours:
            return f"the run has {theirs or 'nothing more'}, this program {ours or 'nothing more'}"
    return ""
