"""What a checkpoint is: an array file, and the sidecar that makes it one. How both are read and checked.

Nothing is believed that is not proved by a hash: the sidecar states that of each array, and its own.
"""

import hashlib
from typing import Any

import msgspec
import numpy as np

from edge_fed.params import F8, params_sha256
from edge_fed.program.arrays import read_arrays
from edge_fed.program.files import read_regular
from edge_fed.program.run_folder import RunFolder
from server.ledger import Book

UNREADABLE = (OSError, ValueError, RecursionError)
"""What reading a damaged checkpoint raises."""

HEAD = b'{"sha256":"'
REST = len(HEAD) + 64 + len(b'",')  # where the other keys begin


class Sidecar(msgspec.Struct, frozen=True):
    """What makes an array file a checkpoint, as it is read.

    Attributes:
        schema: Of the run folder.
        run_id: Hex.
        round: Committed round.
        params_sha256: Of its array ``params``.
        dimension: Its length.
        line: The round's line in ``metrics.jsonl``; None for round 0.
        book: The server's bookkeeping.
        control_sha256: Of its array ``control``; empty: the run has no correction, the file no such array.
    """

    schema: int
    run_id: str
    round: int
    params_sha256: str
    dimension: int
    line: dict[str, Any] | None
    book: Book
    control_sha256: str = ""


def seal(content: bytes) -> bytes:
    """A JSON object with the SHA-256 of its text as its first key."""
    return HEAD + hashlib.sha256(content).hexdigest().encode() + b'",' + content[1:]


def unseal(data: bytes) -> bytes:
    """The object's text without that key.

    Raises:
        ValueError: The text states no hash, or does not have the hash that it states.
    """
    if not data.startswith(HEAD):
        raise ValueError("does not begin with its hash")
    content = b"{" + data[REST:]
    if seal(content) != data:
        raise ValueError("does not have the hash that it states")
    return content


def load_sidecar(folder: RunFolder, round_: int) -> Sidecar:
    """The sidecar of a round.

    Raises:
        OSError, ValueError, MsgspecError: It is not there, damaged, or that of another round or run.
    """
    text = unseal(read_regular(folder.checkpoint(round_)[1]))
    sidecar = msgspec.json.decode(text, type=Sidecar)
    if sidecar.run_id != folder.run_id.hex():
        raise ValueError("belongs to another run")
    if sidecar.round != round_:  # a recycled file whose new content a power failure swallowed
        raise ValueError(f"is that of round {sidecar.round}")
    return sidecar


def load_arrays(folder: RunFolder, sidecar: Sidecar) -> dict[str, F8]:
    """The arrays of a checkpoint by name, read-only: ``params``, with a correction also ``control``.

    Raises:
        OSError, ValueError: They are not there, or not those that the sidecar states.
    """
    path, found = folder.checkpoint(sidecar.round)[0], {}
    expected = {"params": sidecar.params_sha256}
    if sidecar.control_sha256:
        expected["control"] = sidecar.control_sha256
    arrays = read_arrays(path)
    for name, digest in expected.items():
        if name not in arrays:
            raise ValueError(f"{path.name} has no array {name!r}")
        array: F8 = np.ascontiguousarray(arrays[name], dtype=np.float64)
        if array.shape != (sidecar.dimension,) or params_sha256(array) != digest:
            raise ValueError(f"{name} of {path.name} does not have the hash that its sidecar states")
        array.flags.writeable = False
        found[name] = array
    return found


def load_params(folder: RunFolder, round_: int) -> F8 | None:
    """The parameters of a committed round, read-only; None if it is not kept.

    Raises:
        OSError, ValueError, MsgspecError: It is kept, but damaged.
    """
    if not folder.checkpoint(round_)[1].exists():
        return None
    return load_arrays(folder, load_sidecar(folder, round_))["params"]
