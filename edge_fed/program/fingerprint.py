"""The numerics fingerprint: do two machines compute the same bits?

The bits of exp, tanh, matrix products and long dot products change with NumPy's SIMD level, the BLAS
kernel and its thread count. A fleet whose fingerprints differ runs, with a warning, and its runs are
marked as not bit-equal.
"""

import hashlib
import platform

import numpy as np

from edge_fed.seeding import Purpose, stream


def fingerprint() -> str:
    """Hash of a fixed probe on this machine, and the versions that explain a difference."""
    digest = hashlib.sha256()
    draws = stream(0, 0, 0, 0, Purpose.INITIAL).uniform(-2.0, 2.0, 16_384)
    square = draws.reshape(128, 128)
    small = draws[:96].reshape(3, 32)
    for probe in (
        np.exp(draws),
        np.tanh(draws),
        np.log(np.abs(draws) + 1e-9),
        square @ square,
        draws[:60].reshape(20, 3) @ small,
        np.atleast_1d(np.dot(np.tile(draws, 7), np.tile(draws[::-1], 7))),
        draws,
    ):
        digest.update(np.ascontiguousarray(probe).tobytes())
    return f"{digest.hexdigest()[:16]} numpy {np.__version__} {platform.machine()}"
