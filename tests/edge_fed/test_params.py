"""The flat parameter vector and its hashes."""

import hashlib
import struct
import zlib

import numpy as np

from edge_fed.params import crc32, first_difference, little_endian, params_sha256, schema_sha256

VALUES = [0.0, -0.0, 1.5, -2.25, 1e-300]


def test_hashes_are_those_of_the_little_endian_bytes():
    """SHA-256 and CRC-32 are taken of the packed '<d' bytes, on any machine."""
    data = struct.pack("<5d", *VALUES)
    assert params_sha256(np.array(VALUES)) == hashlib.sha256(data).hexdigest()
    assert crc32(np.array(VALUES)) == zlib.crc32(data)


def test_hashes_do_not_depend_on_memory_layout():
    """Big-endian and strided vectors of equal values have the same hashes."""
    vector = np.array(VALUES)
    strided = np.repeat(vector, 2)[::2]
    assert not strided.flags.c_contiguous
    for other in (vector.astype(">f8"), strided):
        assert params_sha256(other) == params_sha256(vector)
        assert crc32(other) == crc32(vector)


def test_hashes_see_every_bit():
    """One unit in the last place, or the sign of a zero, is another result."""
    vector = np.array(VALUES)
    nudged, signed = vector.copy(), vector.copy()
    nudged[2] = np.nextafter(nudged[2], 2)
    signed[0] = -0.0
    assert len({params_sha256(v) for v in (vector, nudged, signed)}) == 3
    assert len({crc32(v) for v in (vector, nudged, signed)}) == 3


def test_little_endian_copies_only_what_it_must():
    """A vector that is right already is returned as it is."""
    vector = np.array(VALUES)
    assert little_endian(vector) is vector
    assert little_endian(vector.astype(">f8")).tobytes() == vector.astype("<f8").tobytes()


def test_schema_tells_dimension_and_policy_apart():
    """Two layouts of the same size are different schemas."""
    schemas = {
        schema_sha256(360, "mlp 2-32-8"),
        schema_sha256(360, "softmax 90x4"),
        schema_sha256(361, "mlp 2-32-8"),
    }
    assert len(schemas) == 3


def test_the_first_difference_of_two_layouts_is_named():
    """One part per parameter: the first that differs, or that only one of them has."""
    layout = "torch categorical 8; a.weight float32[32,2]; a.bias float32[32]"
    assert first_difference(layout, layout) == ""
    assert (
        first_difference(layout, layout.replace("32,2", "31,2").replace("[32]", "[31]"))
        == "the run has a.weight float32[32,2], this program a.weight float32[31,2]"
    )
    shorter = layout.rpartition("; ")[0]
    assert first_difference(layout, shorter) == "the run has a.bias float32[32], this program nothing more"
    assert first_difference(shorter, layout) == "the run has nothing more, this program a.bias float32[32]"
