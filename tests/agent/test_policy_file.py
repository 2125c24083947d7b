"""The file of an adapted policy: read as written, refused by name."""

from pathlib import Path

import numpy as np
import pytest

from agent.policy_file import SCHEMA, PolicyFile, packed, read
from edge_fed.program.exit_codes import ExitCode, ProgramError


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Parameters to the bit, and what the file says."""
    theta = np.random.default_rng(0).normal(size=7)
    (tmp_path / "p.npz").write_bytes(packed(PolicyFile(theta, 2 * theta, {"schema": SCHEMA, "goal": 3})))
    found = read(tmp_path / "p.npz")
    assert np.array_equal(found.params, theta) and np.array_equal(found.initial, 2 * theta)
    assert found.about == {"schema": SCHEMA, "goal": 3}


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "is no policy"),
        (b"PK\x03\x04 and so on", "is no policy"),
        (packed(PolicyFile(np.zeros(2), np.zeros(2), {"schema": 1})), "has schema 1"),
        (packed(PolicyFile(np.zeros(2), np.full(2, np.nan), {"schema": SCHEMA})), "initial of"),
        (packed(PolicyFile(np.zeros((2, 1)), np.zeros(2), {"schema": SCHEMA})), "params of"),
    ],
)
def test_what_is_no_policy_is_refused(content: bytes, named: str, tmp_path: Path) -> None:
    """The file is named, and how to get a right one."""
    (tmp_path / "p.npz").write_bytes(content)
    with pytest.raises(ProgramError, match=named) as caught:
        read(tmp_path / "p.npz")
    assert caught.value.code is ExitCode.USAGE and "--save" in caught.value.hint


def test_objects_are_never_loaded(tmp_path: Path) -> None:
    """[wire 33] An array of pickled objects is refused, not opened."""
    objects = np.array([{"a": 1}], dtype=object)
    np.savez(tmp_path / "p.npz", params=objects, initial=np.zeros(1), about=np.array("{}"))
    with pytest.raises(ProgramError, match="is no policy"):
        read(tmp_path / "p.npz")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With the system's words."""
    with pytest.raises(ProgramError, match=r"gone\.npz cannot be read: No such file"):
        read(tmp_path / "gone.npz")
