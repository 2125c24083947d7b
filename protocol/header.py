"""The header frame: a msgpack map of plain values, bounded before and after unpacking.

Plain values are str, int, float, bool, bytes, None, and lists and string-keyed maps of them. Everything else
(numpy scalars, records, ext types, timestamps, integers of more than 63 bits) is refused by the path of its
field, when it is sent as when it is received.
"""

from collections.abc import Iterable
from typing import Any

import msgpack

from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.limits import MAX_HEADER_BYTES, MAX_HEADER_CONTAINERS, MAX_HEADER_DEPTH, MAX_INTEGER

SCALARS = frozenset({str, float, bool, bytes, type(None)})  # and int, within bounds
CONTAINERS = frozenset({dict, list, tuple})
FAILURES = (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException)
"""All that msgpack and msgspec raise about bytes or values that they cannot take."""


def pack(plain: dict[str, Any], name: str) -> bytes:
    """Packs a header map.

    Args:
        plain: The map.
        name: What it is called in errors, e.g. ``UPDATE``.

    Raises:
        LocalProtocolError: A value is not plain, or the map is larger than a header may be.
    """
    if not is_plain(plain):
        raise LocalProtocolError(f"{name} cannot be sent: {find_fault(plain)}")
    try:
        packed: bytes = msgpack.packb(plain)
    except FAILURES as error:  # e.g. a lone surrogate in a string
        raise LocalProtocolError(f"{name} cannot be sent: {error}") from error
    if len(packed) > MAX_HEADER_BYTES:
        raise LocalProtocolError(
            f"{name} cannot be sent: its header has {len(packed)} bytes, {MAX_HEADER_BYTES} are allowed"
        )
    try:
        if len(packed) > MAX_HEADER_CONTAINERS:
            _objects(packed)
    except ValueError as error:
        raise LocalProtocolError(f"{name} cannot be sent: its header has {error}") from error
    return packed


def unpack(frame: bytes) -> dict[str, Any]:
    """Unpacks a header map.

    The bytes are walked once without building objects: truncated bytes that declare huge containers, or nest
    them, would otherwise make the decoder allocate what they declare.

    Raises:
        RemoteProtocolError: ``malformed``.
    """
    if len(frame) > MAX_HEADER_BYTES:
        raise RemoteProtocolError(
            "malformed", f"header of {len(frame)} bytes, {MAX_HEADER_BYTES} are allowed"
        )
    try:
        walker = msgpack.Unpacker(max_buffer_size=MAX_HEADER_BYTES, read_size=len(frame) or 1)
        walker.feed(frame)
        walker.skip()
        plain = _objects(frame)
    except FAILURES as error:
        reason = f"{type(error).__name__}: {error}"
        raise RemoteProtocolError("malformed", f"header is no msgpack map: {reason}") from error
    if type(plain) is not dict:
        raise RemoteProtocolError("malformed", f"header is a {type(plain).__name__}, not a map")
    if not is_plain(plain):
        raise RemoteProtocolError("malformed", f"header: {find_fault(plain)}")
    return plain


def is_plain(value: Any, depth: int = 1) -> bool:
    """Whether a map, list or tuple holds plain values only; `find_fault` says what else it holds.

    Args:
        value: The container.
        depth: How many containers it stands in, itself included.
    """
    if depth > MAX_HEADER_DEPTH:
        return False
    items: Iterable[Any] = value
    if type(value) is dict:
        for key in value:
            if type(key) is not str:
                return False
        items = value.values()
    for item in items:
        kind = type(item)
        if kind in SCALARS:
            continue
        if kind is int:
            if not -MAX_INTEGER <= item <= MAX_INTEGER:
                return False
        elif kind not in CONTAINERS or not is_plain(item, depth + 1):
            return False
    return True


def find_fault(value: Any, path: str = "", depth: int = 1) -> str | None:
    """The first value inside a container that is not plain, as a sentence; None if all are.

    Args:
        value: A map, list or tuple.
        path: Where it stands.
        depth: How many containers it stands in, itself included.
    """
    if depth > MAX_HEADER_DEPTH:
        return f"more than {MAX_HEADER_DEPTH} containers within each other"
    pairs: Iterable[tuple[Any, Any]] = value.items() if type(value) is dict else enumerate(value)
    for key, item in pairs:
        if type(value) is dict and type(key) is not str:
            return f"{path or 'the map'} has a key of type {type(key).__name__}, keys are strings"
        kind = type(item)
        where = f"{path}.{key}" if path else str(key)
        if kind is int and not -MAX_INTEGER <= item <= MAX_INTEGER:
            return f"{where} is an integer of more than 63 bits"
        if kind in CONTAINERS:
            fault = find_fault(item, where, depth + 1)
            if fault:
                return fault
        elif kind is not int and kind not in SCALARS:
            return f"{where} is a {kind.__module__}.{kind.__qualname__}, not a plain value"
    return None


def _objects(frame: bytes) -> Any:
    if len(frame) <= MAX_HEADER_CONTAINERS:  # each takes a byte, so there are no more than may be
        return msgpack.unpackb(frame, object_pairs_hook=_map)
    left = iter(range(MAX_HEADER_CONTAINERS))

    def counted(container: Any) -> Any:
        if next(left, None) is None:
            raise ValueError(f"more than {MAX_HEADER_CONTAINERS} maps and lists")
        return container

    return msgpack.unpackb(frame, object_pairs_hook=lambda pairs: counted(_map(pairs)), list_hook=counted)


def _map(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a map holds a key twice")
    return found
