"""The numerics fingerprint: equal where the bits are equal, different where they are not."""

import subprocess
import sys

import numpy as np

from edge_fed.program import fingerprint as module
from edge_fed.program.fingerprint import fingerprint


def test_the_same_machine_has_one_fingerprint():
    """Another process, with the same single BLAS thread, finds the same."""
    code = (
        "from edge_fed.program.launch import pin_threads; pin_threads();"
        "from edge_fed.program.fingerprint import fingerprint; print(fingerprint())"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == fingerprint() == fingerprint()
    assert np.__version__ in fingerprint()


def test_one_bit_of_one_function_changes_it(monkeypatch):
    """A machine whose tanh rounds once differently is another machine."""
    here = fingerprint()
    exact = np.tanh

    def other(values):
        result = exact(values)
        result[7] = np.nextafter(result[7], 2.0)
        return result

    monkeypatch.setattr(module.np, "tanh", other)
    assert fingerprint() != here
