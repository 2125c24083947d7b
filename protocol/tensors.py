"""Named one-dimensional tensors to raw chunks and back.

Header entries state name, dtype, element count and number of chunks; the chunks follow in the order of the
entries, without gap or overlap. Sizes are checked against the entries before anything is allocated for them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.limits import DTYPES, MAX_NAME_BYTES, MAX_TENSORS, Limits
from protocol.messages import Record, UInt

F8 = NDArray[np.float64]
Buffer = bytes | bytearray | memoryview
ITEM_BYTES = 8  # of every dtype in DTYPES


class Tensor(Record, frozen=True, kw_only=True):
    """Header entry of one tensor.

    Attributes:
        name: As in ``protocol.messages.TENSORS``.
        dtype: One of ``protocol.limits.DTYPES``.
        count: Number of elements.
        chunks: Number of frames that hold it.
    """

    name: Annotated[str, Meta(max_length=MAX_NAME_BYTES)]
    dtype: str
    count: UInt
    chunks: UInt


class Tensors(Record, frozen=True, kw_only=True):
    """The part of the header that lists them.

    Attributes:
        tensors: In the order of their chunks.
    """

    tensors: Annotated[tuple[Tensor, ...], Meta(max_length=MAX_TENSORS)]


class Names(NamedTuple):
    """The tensors of a message type.

    Attributes:
        required: Always there, in this order.
        optional: All behind them, or none.
    """

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    def fit(self, found: Iterable[str]) -> bool:
        """Whether a message may carry tensors of these names."""
        return tuple(found) in (self.required, self.required + self.optional)

    def __str__(self) -> str:
        return str([*self.required, *(f"{name} (optional)" for name in self.optional)])


def split(
    tensors: Mapping[str, F8], names: Names, limits: Limits, message: str
) -> tuple[list[dict[str, Any]], list[memoryview]]:
    """Turns arrays into header entries and chunks; the chunks are views of the arrays.

    Args:
        tensors: The arrays, [d] each.
        names: Which they must and may be, in order.
        limits: Chunk size and total size.
        message: What they belong to, for errors.

    Raises:
        LocalProtocolError: Other names, or an array that is not a contiguous little-endian float64 vector.
    """
    if not names.fit(tensors):
        raise LocalProtocolError(f"{message} carries the tensors {names}, not {list(tensors)}")
    entries: list[dict[str, Any]] = []
    chunks: list[memoryview] = []
    size = limits.chunk_bytes
    for name, array in tensors.items():
        dtype = _check_array(array, f"{message}.{name}")
        view = array.data.cast("B") if array.size else memoryview(b"")
        parts = [view[at : at + size] for at in range(0, len(view), size)]
        entries.append({"name": name, "dtype": dtype, "count": array.size, "chunks": len(parts)})
        chunks += parts
    total = sum(array.nbytes for array in tensors.values())
    if total > limits.max_tensor_bytes:
        raise LocalProtocolError(
            f"{message}: tensors {list(tensors)} of {total} bytes, the limit is {limits.max_tensor_bytes}"
        )
    return entries, chunks


def join(
    entries: tuple[Tensor, ...], chunks: Sequence[Buffer], names: Names, limits: Limits, room: int
) -> dict[str, F8]:
    """Copies chunks into arrays that are owned, aligned and writeable.

    More than ``room`` bytes are checked as any other, but not copied: the arrays have the shapes that were
    sent, no memory, and no content.

    Args:
        entries: From the header.
        chunks: All frames after the header.
        names: Which the message type must and may have, in order.
        limits: Chunk size and total size.
        room: Bytes that may be copied.

    Raises:
        RemoteProtocolError: ``malformed``: names, sizes or counts do not fit each other or the limits.
    """
    views = [memoryview(chunk).cast("B") for chunk in chunks]
    sizes = [len(view) for view in views]
    _check_sizes(sizes, limits)
    tensors: dict[str, F8] = {}
    at = 0
    for entry in entries:
        end = at + entry.chunks
        _check_entry(entry, sum(sizes[at:end]))
        fits = sum(sizes) <= room
        tensors[entry.name] = _gather(entry, views[at:end]) if fits else _hollow(entry)
        at = end
    if not names.fit(tensors) or len(entries) != len(tensors) or at != len(chunks):
        found = [f"{entry.name[:40]} in {entry.chunks} chunks" for entry in entries]
        raise RemoteProtocolError("malformed", f"{len(chunks)} chunks for {found}, where {names} belong")
    return tensors


def _check_array(array: F8, field: str) -> str:
    if type(array) is not np.ndarray:
        raise LocalProtocolError(f"{field} is a {type(array).__name__}, not a numpy array")
    if array.dtype.str not in DTYPES or array.ndim != 1:
        raise LocalProtocolError(
            f"{field} is {array.dtype.str}{list(array.shape)}, not a vector of {DTYPES[0]}"
        )
    if not array.flags.c_contiguous:
        raise LocalProtocolError(f"{field} is not contiguous; send numpy.ascontiguousarray of it")
    return str(array.dtype.str)


def _check_sizes(sizes: list[int], limits: Limits) -> None:
    if sum(sizes) > limits.max_tensor_bytes:
        raise RemoteProtocolError(
            "malformed", f"tensors of {sum(sizes)} bytes, the limit is {limits.max_tensor_bytes}"
        )
    if sizes and not 0 < min(sizes) <= max(sizes) <= limits.chunk_bytes:
        raise RemoteProtocolError(
            "malformed",
            f"chunks of {min(sizes)} to {max(sizes)} bytes, 1 to {limits.chunk_bytes} are allowed",
        )


def _check_entry(entry: Tensor, held: int) -> None:
    """``held``: bytes of the chunks that the entry announces, as far as they came."""
    if entry.dtype not in DTYPES:
        raise RemoteProtocolError("malformed", f"dtype {entry.dtype[:40]!r} of tensor {entry.name}")
    if held != entry.count * ITEM_BYTES:
        raise RemoteProtocolError(
            "malformed", f"tensor {entry.name}: {entry.count} elements announced, {held} bytes came"
        )


def _gather(entry: Tensor, views: list[memoryview]) -> F8:
    array = np.empty(entry.count, dtype=entry.dtype)
    target = array.data.cast("B") if entry.count else memoryview(b"")
    at = 0
    for view in views:
        target[at : at + len(view)] = view
        at += len(view)
    return array


def _hollow(entry: Tensor) -> F8:
    return np.broadcast_to(np.zeros((), dtype=entry.dtype), (entry.count,))
